"""An MCP server with one tool, over its standard input and output. It does not import the engine."""

import os
from pathlib import Path

from mcp.server.fastmcp import FastMCP

server = FastMCP("press")


@server.tool()
def find_words(words: str) -> str:
    """Finds words."""
    if "PRESS_TRACE" in os.environ:
        with Path(os.environ["PRESS_TRACE"]).open("a") as file:
            file.write(f"server tool {words}\n")
    return "nothing"


server.run()

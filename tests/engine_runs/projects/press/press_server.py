"""An MCP server with one tool, over its standard input and output. It does not import the engine.

Its argument ``read-only`` declares the tool to be that.
"""

import os
import sys
from pathlib import Path

from mcp.server.fastmcp import FastMCP
from mcp.types import ToolAnnotations

server = FastMCP("press")


@server.tool(annotations=ToolAnnotations(readOnlyHint="read-only" in sys.argv))
def find_words(words: str) -> str:
    """Finds words."""
    if "PRESS_TRACE" in os.environ:
        with Path(os.environ["PRESS_TRACE"]).open("a") as file:
            file.write(f"server tool {words}\n")
    return "nothing"


server.run()

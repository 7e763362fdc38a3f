"""An MCP server with one tool, over its standard input and output."""

from mcp.server.fastmcp import FastMCP
from press_parts import trace

server = FastMCP("press")


@server.tool()
def find_words(words: str) -> str:
    """Finds words."""
    trace(f"server tool {words}")
    return "nothing"


server.run()

"""Tools of each kind. Each that is called leaves a mark."""

import os
import sys
from pathlib import Path
from typing import Any

from crewai import Crew
from crewai.flow.flow import Flow, listen, start
from press_crew import Archive
from press_flow import ask
from press_parts import Marking, plain, trace


class Waiting(Archive):
    name: str = "wait_archive"

    async def _run(self, words: str) -> str:  # type: ignore[override]
        trace(f"asynchronous tool {words}")
        return "nothing"


class Renamed(Marking):
    """Models are given another name, of 64 letters of this one."""

    name: str = "MarkArchive «of years» " + "that have long been forgotten " * 3


def with_renamed_tool() -> Crew:
    return plain(tools=[Renamed()])


def with_waiting_tool() -> Crew:
    return plain(tools=[Waiting()])


def with_delegation() -> Crew:
    """Its writer hands work to the researcher."""
    crew = plain()
    crew.agents[1].allow_delegation = True
    return crew


def with_server(*options: str) -> Crew:
    """Its writer has the tool of an MCP server, a process on the same machine."""
    from crewai.mcp import MCPServerStdio

    program = Path(__file__).with_name("press_server.py")
    crew = plain()
    server = MCPServerStdio(command=sys.executable, args=[str(program), *options], env=dict(os.environ))
    crew.agents[1].mcps = [server]
    return crew


def with_read_only_server() -> Crew:
    return with_server("read-only")


class HandFlow(Flow[dict[str, Any]]):
    """Its methods call tools by hand, once as the tool is and once in the form for agents."""

    @start()
    def begin(self) -> str:
        return "begun"

    @listen(begin)
    def look(self) -> str:
        return str(Marking().run(words="words"))

    @listen(look)
    def look_again(self, seen: str) -> str:
        again = Marking().to_structured_tool().invoke({"words": "words"})
        return ask(f"Look <{seen}> <{again}>")

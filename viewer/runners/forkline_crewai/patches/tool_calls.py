"""Decides about the calls of CrewAI's tools, before they reach the tools' own code."""

from __future__ import annotations

import functools
from typing import Any

from crewai import Agent
from crewai.tools.base_tool import BaseTool
from crewai.tools.structured_tool import CrewStructuredTool

from forkline_runner.recorded import change_classes, plain_name
from forkline_runner.tool_calls import (
    IS_DECIDED,
    Given,
    ToolCalls,
    ToolMethods,
    argument,
    decided,
    with_argument,
)

# The names of tools of MCP servers, each with whether every server that has one declares it to be read-only.
_declared: dict[str, bool] = {}


def decide_about_calls(calls: ToolCalls) -> None:
    """Have each call of a tool decided, of the classes that exist and of those that are defined later.

    Patches: run and arun of crewai.tools.base_tool.BaseTool and of its subclasses, its __init_subclass__, and
        invoke and ainvoke of crewai.tools.structured_tool.CrewStructuredTool
    Versions: 1.14.2 and newer
    Why: A hook of the engine can refuse a call, but neither answer it with a recorded result nor change its
        arguments for every way in which agents, flows and methods call tools.
    Test: tests/runners/resuming/test_tool_calls.py::test_a_recorded_result_answers
    """
    change_classes(BaseTool, _decide_methods, calls)
    for name in ("invoke", "ainvoke"):
        method = getattr(CrewStructuredTool, name)
        setattr(CrewStructuredTool, name, decided(method, calls, BY_INPUT))
    note_read_only_tools()


def note_read_only_tools() -> None:
    """Note which tools MCP servers declare to be read-only: they are called unless a person chose otherwise.

    Patches: get_mcp_tools of crewai.Agent, and list_tools of mcp.ClientSession once an agent has servers
    Versions: 1.14.2 and newer
    Why: The engine drops the annotations of a server's tools. mcp is only imported if a crew uses it.
    Test: tests/runners/resuming/test_tool_calls.py::test_a_read_only_tool_of_a_server_is_called
    """
    original = Agent.get_mcp_tools

    @functools.wraps(original)
    def get_mcp_tools(self: Any, *args: Any, **given: Any) -> Any:
        _note_listed_tools()
        return original(self, *args, **given)

    Agent.get_mcp_tools = get_mcp_tools


@functools.cache
def _note_listed_tools() -> None:
    from mcp import ClientSession

    original = ClientSession.list_tools

    @functools.wraps(original)
    async def list_tools(self: Any, *args: Any, **given: Any) -> Any:
        found = await original(self, *args, **given)
        for tool in found.tools:
            name, is_read_only = plain_name(tool.name), bool(getattr(tool.annotations, "readOnlyHint", False))
            _declared[name] = _declared.get(name, True) and is_read_only
        return found

    ClientSession.list_tools = list_tools


def _is_read_only(tool: Any) -> bool:
    """Return whether it is a tool of an MCP server that is declared to be read-only."""
    name = getattr(getattr(tool, "_original_tool", None) or tool, "original_tool_name", None)
    return isinstance(name, str) and _declared.get(plain_name(name), False)


def _decide_methods(cls: type[BaseTool], calls: ToolCalls) -> None:
    """Wrap the methods that a class itself defines."""
    for name in ("run", "arun"):
        method = vars(cls).get(name)
        if callable(method) and not hasattr(method, IS_DECIDED):
            setattr(cls, name, decided(method, calls, BY_NAME))


def _by_name(tool: Any, given: Given) -> dict[str, Any]:
    names = getattr(getattr(tool, "args_schema", None), "model_fields", {})
    return {**dict(zip(names, given[0], strict=False)), **given[1]}


BY_NAME = ToolMethods(_by_name, lambda _given, _arguments, decision: ((), decision.arguments), _is_read_only)
BY_INPUT = ToolMethods(
    lambda _tool, given: argument(given, "input"),
    lambda given, _arguments, decision: with_argument(given, "input", decision.arguments),
    _is_read_only,
)

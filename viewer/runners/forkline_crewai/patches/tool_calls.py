"""Decides about the calls of CrewAI's tools, before they reach the tools' own code."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from crewai import Agent
from crewai.tools.base_tool import BaseTool
from crewai.tools.structured_tool import CrewStructuredTool

from forkline_runner.recorded import plain_name

if TYPE_CHECKING:
    from forkline_runner.tool_calls import ToolCalls

# Set on methods that have their calls decided.
_IS_DECIDED = "forkline_decides"
Given = tuple[tuple[Any, ...], dict[str, Any]]
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
    waiting: list[type[BaseTool]] = [BaseTool]
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        _decide_methods(cls, calls)
    original = getattr(BaseTool.__init_subclass__, "__func__", None)

    def defined(cls: type[BaseTool], /, **given: Any) -> None:
        if original:
            original(cls, **given)
        else:
            super(BaseTool, cls).__init_subclass__(**given)
        _decide_methods(cls, calls)

    BaseTool.__init_subclass__ = classmethod(defined)
    for name in ("invoke", "ainvoke"):
        method = getattr(CrewStructuredTool, name)
        setattr(CrewStructuredTool, name, _decided(method, calls, _input, _with_input))
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
        if callable(method) and not hasattr(method, _IS_DECIDED):
            setattr(cls, name, _decided(method, calls, _by_name, _with_names))


def _decided(
    method: Callable[..., Any],
    calls: ToolCalls,
    read: Callable[[Any, Given], Any],
    edit: Callable[[Given, Any], Given],
) -> Callable[..., Any]:
    """Return the method with each of its calls decided.

    ``read`` returns the arguments of a call, and ``edit`` what the method is given with edited ones.
    """
    if inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        async def decided_later(self: Any, *args: Any, **given: Any) -> Any:
            if calls.is_decided(self, method):
                return await method(self, *args, **given)
            arguments = read(self, (args, given))
            is_read_only = _is_read_only(self)
            decision = await asyncio.to_thread(calls.decide, self.name, arguments, is_read_only=is_read_only)
            if decision.answer is not None:
                return decision.answer
            if decision.arguments is not arguments:
                args, given = edit((args, given), decision.arguments)
            with calls.calling(self, method):
                return await method(self, *args, **given)

        setattr(decided_later, _IS_DECIDED, True)
        return decided_later

    @functools.wraps(method)
    def decided(self: Any, *args: Any, **given: Any) -> Any:
        if calls.is_decided(self, method):
            return method(self, *args, **given)
        arguments = read(self, (args, given))
        decision = calls.decide(self.name, arguments, is_read_only=_is_read_only(self))
        if decision.answer is not None:
            return decision.answer
        if decision.arguments is not arguments:
            args, given = edit((args, given), decision.arguments)
        with calls.calling(self, method):
            return method(self, *args, **given)

    setattr(decided, _IS_DECIDED, True)
    return decided


def _by_name(tool: Any, given: Given) -> dict[str, Any]:
    names = getattr(getattr(tool, "args_schema", None), "model_fields", {})
    return {**dict(zip(names, given[0], strict=False)), **given[1]}


def _with_names(_given: Given, edited: dict[str, Any]) -> Given:
    return (), edited


def _input(_tool: Any, given: Given) -> Any:
    args, named = given
    return args[0] if args else named.get("input")


def _with_input(given: Given, edited: Any) -> Given:
    args, named = given
    return (edited, *args[1:]), {name: value for name, value in named.items() if name != "input"}

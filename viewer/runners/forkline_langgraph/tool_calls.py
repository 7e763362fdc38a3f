"""Decides about the calls of LangChain's tools, before they reach the tools' own code."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool

if TYPE_CHECKING:
    from forkline_runner.tool_calls import Decision, ToolCalls


def install(calls: ToolCalls) -> None:
    """Have each call of a tool decided. ``invoke`` and ``ainvoke`` call these methods too."""
    BaseTool.run = _decided(BaseTool.run, calls)
    BaseTool.arun = _decided_later(BaseTool.arun, calls)


def _decided(method: Callable[..., Any], calls: ToolCalls) -> Callable[..., Any]:
    @functools.wraps(method)
    def run(self: Any, tool_input: Any, *args: Any, **given: Any) -> Any:
        if calls.is_decided(self, method):
            return method(self, tool_input, *args, **given)
        arguments = _arguments(self, tool_input)
        decision = calls.decide(self.name, arguments, is_read_only=_is_read_only(self))
        if decision.answer is not None:
            return _result(self, decision, given.get("tool_call_id"))
        with calls.calling(self, method):
            return method(self, _edited(tool_input, arguments, decision), *args, **given)

    return run


def _decided_later(method: Callable[..., Any], calls: ToolCalls) -> Callable[..., Any]:
    @functools.wraps(method)
    async def arun(self: Any, tool_input: Any, *args: Any, **given: Any) -> Any:
        if calls.is_decided(self, method):
            return await method(self, tool_input, *args, **given)
        arguments = _arguments(self, tool_input)
        is_read_only = _is_read_only(self)
        decision = await asyncio.to_thread(calls.decide, self.name, arguments, is_read_only=is_read_only)
        if decision.answer is not None:
            return _result(self, decision, given.get("tool_call_id"))
        with calls.calling(self, method):
            return await method(self, _edited(tool_input, arguments, decision), *args, **given)

    return arun


def _arguments(tool: Any, tool_input: Any) -> Any:
    """Return the arguments that a model writes, without those that the graph adds."""
    if not isinstance(tool_input, Mapping):
        return tool_input
    try:
        names = set(tool.tool_call_schema.model_fields)
    except Exception:
        # The schema is a dictionary, or the tool's own code failed to make it.
        return dict(tool_input)
    return {name: value for name, value in tool_input.items() if name in names}


def _edited(tool_input: Any, arguments: Any, decision: Decision) -> Any:
    """Return the input of a call with the arguments that a person has edited."""
    if decision.arguments is arguments:
        return tool_input
    if not isinstance(tool_input, Mapping) or not isinstance(arguments, Mapping):
        return decision.arguments
    added = {name: value for name, value in tool_input.items() if name not in arguments}
    return {**added, **decision.arguments}


def _is_read_only(tool: Any) -> bool:
    """Return whether a tool of an MCP server is declared to be read-only."""
    return bool((getattr(tool, "metadata", None) or {}).get("readOnlyHint"))


def _result(tool: Any, decision: Decision, call_id: str | None) -> Any:
    """Return what the tool would return: a message if a model has requested the call."""
    if not call_id:
        return decision.answer
    status = "error" if decision.is_refused else "success"
    return ToolMessage(decision.answer or "", tool_call_id=call_id, name=tool.name, status=status)

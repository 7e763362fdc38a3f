"""Decides about the calls of LangChain's tools, before they reach the tools' own code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool

from forkline_runner.tool_calls import (
    Decision,
    Given,
    ToolCalls,
    ToolMethods,
    argument,
    decided,
    with_argument,
)

# The name of the first parameter of a tool's methods.
INPUT = "tool_input"


def install(calls: ToolCalls) -> None:
    """Have each call of a tool decided. ``invoke`` and ``ainvoke`` call these methods too."""
    for name in ("run", "arun"):
        setattr(BaseTool, name, decided(getattr(BaseTool, name), calls, METHODS))


def _arguments(tool: Any, given: Given) -> Any:
    """Return the arguments that a model writes, without those that the graph adds."""
    tool_input = argument(given, INPUT)
    if not isinstance(tool_input, Mapping):
        return tool_input
    try:
        names = set(tool.tool_call_schema.model_fields)
    except Exception:
        # The schema is a dictionary, or the tool's own code failed to make it.
        return dict(tool_input)
    return {name: value for name, value in tool_input.items() if name in names}


def _edited(given: Given, arguments: Any, decision: Decision) -> Given:
    """Return what a call is given with the arguments that a person has edited."""
    edited, tool_input = decision.arguments, argument(given, INPUT)
    if isinstance(tool_input, Mapping) and isinstance(arguments, Mapping):
        added = {name: value for name, value in tool_input.items() if name not in arguments}
        edited = {**added, **edited}
    return with_argument(given, INPUT, edited)


def _is_read_only(tool: Any) -> bool:
    """Return whether a tool of an MCP server is declared to be read-only."""
    return bool((getattr(tool, "metadata", None) or {}).get("readOnlyHint"))


def _result(tool: Any, given: Given, decision: Decision) -> Any:
    """Return what the tool would return: a message if a model has requested the call."""
    if not (call_id := given[1].get("tool_call_id")):
        return decision.answer
    status = "error" if decision.is_refused else "success"
    return ToolMessage(decision.answer or "", tool_call_id=call_id, name=tool.name, status=status)


METHODS = ToolMethods(_arguments, _edited, _is_read_only, _result)

"""Describes a compiled graph for the forms: its channels with their reducers, and its configuration."""

from __future__ import annotations

import dataclasses
import inspect
import json
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from forkline_langgraph.run import edits
from forkline_langgraph.run.run_settings import RESERVED

MAX_NAMES = 200
MAX_DEFAULT = 500
# Prefixes of channels that control the graph and are not part of its state.
CONTROL = ("__", "branch:", "join:", "start:")
# The types of a JSON schema. ``bool`` comes before ``int``, whose subclass it is.
TYPES: Mapping[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    tuple: "array",
    set: "array",
    dict: "object",
}

Found = dict[str, Any]


def channels_of(graph: Any) -> list[Found]:
    """Return the name, type and reducer of each channel of the graph's state; no reducer is empty."""
    found = [
        {"name": name, "type": type_name(getattr(channel, "typ", None)), "reducer": reducer_of(channel)}
        for name, channel in graph.channels.items()
        if not name.startswith(CONTROL) and not _is_trigger(graph, name)
    ]
    return found[:MAX_NAMES]


def _is_trigger(graph: Any, name: str) -> bool:
    """Return whether this is a channel with which early versions trigger the nodes after a node."""
    return name in graph.nodes and type(graph.channels[name]).__name__ == "EphemeralValue"


def reducer_of(channel: Any) -> str:
    """Return the name of the function that adds a write to a channel; empty if a write replaces its value."""
    if not edits.has_reducer(channel):
        return ""
    function = getattr(channel, "operator", None) or getattr(channel, "reducer", None)
    name = getattr(function, "__name__", "") or type(function or channel).__name__
    is_operator = getattr(function, "__module__", "") == "_operator"
    return f"operator.{name}" if is_operator else str(name).lstrip("_")


def type_name(found: Any) -> str:
    """Return the JSON type of a Python type; empty if it has none, or several."""
    origin = typing.get_origin(found)
    if origin is typing.Annotated:
        return type_name(typing.get_args(found)[0])
    if origin in (typing.Union, types.UnionType):
        named = {type_name(one) for one in typing.get_args(found) if one is not type(None)}
        return named.pop() if len(named) == 1 else ""
    if origin is typing.Literal:
        named = {type_name(type(one)) for one in typing.get_args(found)}
        return named.pop() if len(named) == 1 else ""
    real = origin or found
    if not isinstance(real, type):
        return ""
    return next((name for known, name in TYPES.items() if issubclass(real, known)), "")


def settings_of(graph: Any) -> dict[str, list[Found]]:
    """Return the fields of ``configurable`` and of ``context`` that the graph declares."""
    context, configurable = getattr(graph, "context_schema", None), getattr(graph, "config_type", None)
    is_old = not hasattr(graph, "context_schema")
    return {
        "configurable": list(_fields_of(configurable)) if is_old else [],
        "context": [] if is_old else list(_fields_of(context)),
    }


def _fields_of(schema: Any) -> Iterator[Found]:
    """Yield the fields of a dataclass, a pydantic model or a TypedDict, with defaults that JSON can hold."""
    if not inspect.isclass(schema):
        return
    try:
        hints = typing.get_type_hints(schema)
    except Exception:
        hints = dict(getattr(schema, "__annotations__", {}))
    for name, hint in list(hints.items())[:MAX_NAMES]:
        if name in RESERVED or name.startswith("_"):
            continue
        found = {"name": name, "type": type_name(hint)}
        has_default, default = _default_of(schema, name)
        yield {**found, "default": default} if has_default else found


def _default_of(schema: Any, name: str) -> tuple[bool, Any]:
    """Return whether a field has a short default that JSON can hold, and the default."""
    value: Any = dataclasses.MISSING
    if dataclasses.is_dataclass(schema):
        value = next((one.default for one in dataclasses.fields(schema) if one.name == name), value)
    elif hasattr(schema, "model_fields"):
        found = schema.model_fields.get(name)
        value = found.default if found is not None and not found.is_required() else value
    try:
        is_short = len(json.dumps(value)) <= MAX_DEFAULT
    except (TypeError, ValueError):
        return False, None
    return is_short, value if is_short else None

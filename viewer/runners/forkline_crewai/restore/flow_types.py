"""The types that a flow's methods return and read, from the annotations in the project's code."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator
from typing import Any


def type_of(flow: Any, method: str) -> Any:
    """Return the annotated return type of a method, else the type that its listeners read, else None."""
    if method not in {str(name) for name in flow._methods}:
        return None
    returned = _hints(flow, method).get("return")
    if returned not in (None, Any):
        return returned
    read = [_read_by(flow, listener) for listener in _listeners_of(flow, method)]
    # Only a class: any other annotation accepts the dictionary.
    return next((one for one in read if inspect.isclass(one) and one not in (Any, dict, object)), None)


def _listeners_of(flow: Any, method: str) -> Iterator[str]:
    """Yield the methods that only this method triggers: they receive its result."""
    methods = {str(name) for name in flow._methods}
    definitions = getattr(_definition_of(flow), "methods", None) or {}
    older = getattr(flow, "_listeners", None) or {}
    for name in methods:
        condition = getattr(definitions.get(name), "listen", None) or older.get(name)
        if set(_texts(condition)) & methods == {method}:
            yield name


def _definition_of(flow: Any) -> Any:
    """Return the flow's own definition; in CrewAI 1.14.7, that of its class; in older versions, None."""
    of_class = getattr(type(flow), "flow_definition", None)
    return getattr(flow, "_definition", None) or (of_class() if of_class else None)


def _texts(condition: Any) -> Iterator[str]:
    """Yield every text in a condition: versions nest lists, tuples and dictionaries differently."""
    if isinstance(condition, str):
        yield str(condition)
    elif isinstance(condition, dict):
        for value in condition.values():
            yield from _texts(value)
    elif isinstance(condition, list | tuple | set | frozenset):
        for value in condition:
            yield from _texts(value)


def _read_by(flow: Any, listener: str) -> Any:
    """Return the annotation of the first parameter after ``self``."""
    hints = {name: hint for name, hint in _hints(flow, listener).items() if name not in {"self", "return"}}
    return next(iter(hints.values()), None)


def _hints(flow: Any, method: str) -> dict[str, Any]:
    found = getattr(type(flow), method, None)
    function = inspect.unwrap(getattr(found, "_meth", found)) if found is not None else None
    try:
        return typing.get_type_hints(function) if function is not None else {}
    except Exception:
        # For example, a name that is imported only for type checkers.
        return {}

"""The input of a new run, in the form that its graph expects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# The field for an input that is not an object (viewer/engines/langgraph/project_source.py).
INPUT = "input"


def input_of(graph: Any, values: Mapping[str, Any]) -> Any:
    """Return the values of the form, or the single value for a function that expects no object."""
    if set(values) == {INPUT} and is_functional(graph):
        return values[INPUT]
    return dict(values)


def is_functional(graph: Any) -> bool:
    """Return whether this is a function of the functional API, which has no builder."""
    return not hasattr(graph, "builder")

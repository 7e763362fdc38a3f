"""The input of a new run, as its graph takes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# The field of an input that is no object (viewer/engines/langgraph/project_source/inputs.py).
INPUT = "input"


def input_of(graph: Any, values: Mapping[str, Any]) -> Any:
    """The values of the form, or the one value of a function that takes no object."""
    if set(values) == {INPUT} and is_functional(graph):
        return values[INPUT]
    return dict(values)


def is_functional(graph: Any) -> bool:
    """Whether this is a function of the functional API: a graph that is built has a builder."""
    return not hasattr(graph, "builder")

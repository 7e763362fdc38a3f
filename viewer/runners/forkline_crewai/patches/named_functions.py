"""Write the names of functions, and the schemas of model classes, into checkpoints.

Patches: pydantic.BaseModel.model_dump, while a checkpoint is written
Versions: 1.14.2 and newer
Why: A single function in the state, such as a tool made by ``@tool``, prevents every checkpoint from being
    written. Newer engines write a model class's schema; older ones fail.
Test: quality/compatibility/rows/components.py::function_tool
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from forkline_crewai.patches.checkpoints.retried_serialization import writing


def apply(warn: Callable[..., None]) -> None:
    """Make the serializer store the name of a function, and call ``warn`` for each such function."""
    dump = BaseModel.model_dump

    def fallback(value: Any) -> Any:
        schema: Any = getattr(value, "model_json_schema", None)
        if isinstance(value, type) and schema:
            return schema()
        if not callable(value) or schema:
            raise TypeError(f"Unable to serialize unknown type: {type(value)}")
        name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', repr(value))}"
        warn(
            "crewai.function_not_stored",
            name=name,
        )
        return name

    def dumped(self: Any, **named: Any) -> Any:
        # Leave other dumps unchanged: parts of the state are dumped as JSON, too.
        if getattr(writing, "depth", 0):
            named.setdefault("fallback", fallback)
        return dump(self, **named)

    BaseModel.model_dump = dumped  # type: ignore[method-assign]

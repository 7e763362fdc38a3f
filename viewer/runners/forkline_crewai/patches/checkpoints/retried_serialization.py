"""Retry the serialization of the engine's state if the state changes during it.

Patches: crewai.state.runtime.RuntimeState.model_dump and model_dump_json,
    crewai.flow.flow.Flow._copy_and_serialize_state
Versions: 1.14.2 and newer
Why: The run continues while a checkpoint is written. pydantic's serializer then fails, or panics with an
    exception that ``except Exception`` does not catch and that ends the run.
Test: quality/compatibility/rows/failures.py::panic
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from crewai.flow.flow import Flow
from crewai.state.runtime import RuntimeState

MAX_TRIES = 6
# ``depth``: the number of nested checkpoint serializations in this thread.
writing = threading.local()


def apply() -> None:
    """Retry for about two seconds, then raise RuntimeError."""
    for owner, name in (
        (RuntimeState, "model_dump"),
        (RuntimeState, "model_dump_json"),
        (Flow, "_copy_and_serialize_state"),
    ):
        setattr(owner, name, _retried(getattr(owner, name)))


def _retried(dump: Callable[..., Any]) -> Callable[..., Any]:
    def dumped(self: Any, *args: Any, **named: Any) -> Any:
        writing.depth = getattr(writing, "depth", 0) + 1
        try:
            return _until_unchanged(lambda: dump(self, *args, **named))
        finally:
            writing.depth -= 1

    return dumped


def _until_unchanged(dump: Callable[[], Any]) -> Any:
    for attempt in range(1, MAX_TRIES + 1):
        try:
            return dump()
        except BaseException as error:
            if not _changed_meanwhile(error):
                raise
            if attempt == MAX_TRIES:
                raise RuntimeError(f"the state kept changing while it was written: {error}") from error
            time.sleep(0.02 * 2**attempt)
    raise AssertionError


def _changed_meanwhile(error: BaseException) -> bool:
    return "changed size during iteration" in str(error) or type(error).__name__ == "PanicException"

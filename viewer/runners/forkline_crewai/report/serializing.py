"""Has the engine put its state into JSON where it would give up by itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from crewai.flow.flow import Flow
from crewai.state.runtime import RuntimeState
from pydantic import BaseModel

from forkline_runner.messages import gettext_noop as _

TRIES = 6
# What the state is made of asks for its own JSON: only while a checkpoint is written it is ours to help.
writing = threading.local()


def guard(warn: Callable[..., None]) -> None:
    """Retry what fails because the run went on meanwhile, and put names in place of functions and classes.

    The serializer is Rust, and gives up with a panic that no ``except Exception`` sees: it would end
    the run. And a single function, as in a tool made by ``@tool``, would keep every checkpoint from
    being written.
    """
    name_functions(warn)
    for owner, name in (
        (RuntimeState, "model_dump"),
        (RuntimeState, "model_dump_json"),
        (Flow, "_copy_and_serialize_state"),
    ):
        setattr(owner, name, _retried(getattr(owner, name)))


def name_functions(warn: Callable[..., None]) -> None:
    """Have a checkpoint hold a function's name, and a model class's schema as newer engines write it."""

    def instead(value: Any) -> Any:
        schema: Any = getattr(value, "model_json_schema", None)
        if isinstance(value, type) and schema:
            return schema()
        if not callable(value) or schema:
            raise TypeError(f"Unable to serialize unknown type: {type(value)}")
        name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', repr(value))}"
        warn(
            _(
                "A checkpoint cannot hold the function %(name)s, only its name: to go on from one, name the "
                "entry point, so that the function comes from the project's own code."
            ),
            name=name,
        )
        return name

    dump = BaseModel.model_dump

    def dumped(self: Any, **named: Any) -> Any:
        if getattr(writing, "depth", 0):
            named.setdefault("fallback", instead)
        return dump(self, **named)

    BaseModel.model_dump = dumped


def _retried(dump: Callable[..., Any]) -> Callable[..., Any]:
    def dumped(self: Any, *args: Any, **named: Any) -> Any:
        writing.depth = getattr(writing, "depth", 0) + 1
        try:
            return _until_it_stands_still(lambda: dump(self, *args, **named))
        finally:
            writing.depth -= 1

    return dumped


def _until_it_stands_still(dump: Callable[[], Any]) -> Any:
    for attempt in range(1, TRIES + 1):
        try:
            return dump()
        except BaseException as error:
            if not _went_on_meanwhile(error):
                raise
            if attempt == TRIES:
                raise RuntimeError(f"the state kept changing while it was written: {error}") from error
            time.sleep(0.02 * 2**attempt)
    raise AssertionError


def _went_on_meanwhile(error: BaseException) -> bool:
    return "changed size during iteration" in str(error) or type(error).__name__ == "PanicException"

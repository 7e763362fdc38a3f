"""Has every checkpoint of the run written: whole, one after the other, and before the child ends."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

from crewai.events.event_bus import crewai_event_bus
from crewai.flow.flow import Flow
from crewai.state import checkpoint_listener
from crewai.state.runtime import RuntimeState

TRIES = 6
MOST_SECONDS = 60


def guard() -> None:
    """Retry what fails because the run went on meanwhile, and let nothing but an Exception out of a write.

    The serializer is Rust, and gives up with a panic that no ``except Exception`` sees: it would end
    the run. And two writes at once would both claim the same parent.
    """
    for owner, name in (
        (RuntimeState, "model_dump"),
        (RuntimeState, "model_dump_json"),
        (Flow, "_copy_and_serialize_state"),
    ):
        setattr(owner, name, _retried(getattr(owner, name)))
    lock = threading.RLock()
    write = checkpoint_listener._do_checkpoint

    def one_at_a_time(*args: Any, **named: Any) -> None:
        with lock:
            write(*args, **named)

    checkpoint_listener._do_checkpoint = one_at_a_time
    _wait_for_writes()


def flush(seconds: float = MOST_SECONDS) -> bool:
    """Wait until no handler of an event is under way. False where that took too long."""
    until = time.monotonic() + seconds
    while crewai_event_bus._pending_futures:
        if time.monotonic() > until:
            return False
        crewai_event_bus.flush(timeout=max(0.01, until - time.monotonic()))
    return True


def _retried(dump: Callable[..., Any]) -> Callable[..., Any]:
    def dumped(self: Any, *args: Any, **named: Any) -> Any:
        for attempt in range(1, TRIES + 1):
            try:
                return dump(self, *args, **named)
            except BaseException as error:
                if not _went_on_meanwhile(error):
                    raise
                if attempt == TRIES:
                    raise RuntimeError(f"the state kept changing while it was written: {error}") from error
                time.sleep(0.02 * 2**attempt)
        raise AssertionError

    return dumped


def _went_on_meanwhile(error: BaseException) -> bool:
    return "changed size during iteration" in str(error) or type(error).__name__ == "PanicException"


def _wait_for_writes() -> None:
    """Have an event that writes a checkpoint wait for it.

    The engine writes in other threads, while the run goes on: so a checkpoint could hold more than
    its event, come in another order, or be lost at the end.
    """
    emit = crewai_event_bus.emit

    def emit_and_wait(source: Any, event: Any) -> Any:
        future = emit(source, event)
        if (
            future is not None
            and not _in_a_handler()
            and checkpoint_listener._should_checkpoint(source, event)
        ):
            # Whoever asked for the event looks at its outcome.
            with contextlib.suppress(Exception):
                future.result(timeout=MOST_SECONDS)
        return future

    crewai_event_bus.emit = emit_and_wait


def _in_a_handler() -> bool:
    """Whether this thread belongs to the event bus: it would wait for itself."""
    thread = threading.current_thread()
    return thread.name.startswith("CrewAISyncHandler") or thread is getattr(
        crewai_event_bus, "_loop_thread", None
    )

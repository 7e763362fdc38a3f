"""Has every checkpoint of the run written: whole, one after the other, told, and before the child ends."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from crewai.events.event_bus import crewai_event_bus
from crewai.state import checkpoint_listener
from crewai.state.provider.json_provider import JsonProvider
from crewai.state.provider.sqlite_provider import SqliteProvider
from crewai.state.runtime import RuntimeState

from forkline_crewai.report import serializing
from forkline_crewai.restore import old_stores
from forkline_runner.pinning import Moved, Pins
from forkline_runner.reporting import shortened

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.jobs.spool import Request

MOST_SECONDS = 60
MOST_REASON = 300
# The event that the write under way in this thread is for.
cause = threading.local()


def guard(reporter: Reporter, request: Request) -> None:
    """Let writes succeed that would fail or come in each other's way, and report each success and failure."""
    serializing.guard(reporter.warn)
    _only_where_it_began(request)
    _one_at_a_time(reporter)
    _report_each(reporter)
    _wait_for_writes()


def flush(seconds: float = MOST_SECONDS) -> bool:
    """Wait until no handler of an event is under way. False where that took too long."""
    until = time.monotonic() + seconds
    while crewai_event_bus._pending_futures:
        if time.monotonic() > until:
            return False
        crewai_event_bus.flush(timeout=max(0.01, until - time.monotonic()))
    return True


def _one_at_a_time(reporter: Reporter) -> None:
    """Two writes at once would both claim the same parent."""
    lock = threading.RLock()
    write = checkpoint_listener._do_checkpoint

    def written(state: Any, settings: Any, event: Any = None) -> None:
        with lock:
            cause.event = event
            try:
                write(state, settings, event)
            except Exception as error:
                # The engine only logs it, and goes on.
                reporter.write("checkpoint_failed", error=_reason(error), moved=isinstance(error, Moved))
                raise
            finally:
                cause.event = None

    checkpoint_listener._do_checkpoint = written


def _reason(error: Exception) -> str:
    """Why a write failed, without the path: ``No space left on device``."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return shortened(" ".join(text.split()), MOST_REASON)


def _only_where_it_began(request: Request) -> None:
    """Refuse to write to a location that was renamed or replaced since: the engine would make it anew."""
    pins = Pins()
    pins.hold(request["location"]["path"], request["location"]["provider"] == "json")
    providers: tuple[Any, ...] = (JsonProvider, SqliteProvider, old_stores.OldSqliteProvider)
    for provider in providers:
        if "checkpoint" in vars(provider):
            provider.checkpoint = _pinned(provider.checkpoint, pins, provider is JsonProvider)


def _pinned(write: Callable[..., str], pins: Pins, is_folder: bool) -> Callable[..., str]:
    def written(self: Any, data: str, location: str, **named: Any) -> str:
        pins.check(location)
        place = write(self, data, location, **named)
        pins.hold(location, is_folder)
        # Moved between the two, it has been made anew: that is reported as well.
        pins.check(location)
        return place

    return written


def _report_each(reporter: Reporter) -> None:
    """Tell each checkpoint as the engine takes it for its last one: older engines have no event for it."""
    chain = RuntimeState._chain_lineage

    def chained(self: Any, provider: Any, location: str) -> None:
        parent = self._parent_id
        chain(self, provider, location)
        event = getattr(cause, "event", None)
        reporter.write(
            "checkpoint",
            id=str(self._checkpoint_id),
            parent=str(parent or ""),
            path=str(location),
            branch=str(self._branch or ""),
            trigger=str(getattr(event, "type", "") or ""),
        )

    RuntimeState._chain_lineage = chained


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

"""Wait for a checkpoint's write before the run continues.

Patches: crewai.events.event_bus.crewai_event_bus.emit
Versions: 1.14.2 and newer
Why: The engine writes checkpoints in other threads while the run continues. A checkpoint could contain work
    that was done after its event, be written out of order, or be lost when the run ends.
Test: tests/runners/test_patches.py::test_a_run_waits_for_each_checkpoint
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from crewai.events.event_bus import crewai_event_bus
from crewai.state import checkpoint_listener

MAX_SECONDS = 60


def apply() -> None:
    """Return from ``emit`` only when the event's checkpoint is written."""
    emit = crewai_event_bus.emit

    def emit_and_wait(source: Any, event: Any) -> Any:
        future = emit(source, event)
        should_checkpoint = checkpoint_listener._should_checkpoint
        if future is not None and not _in_a_handler() and should_checkpoint(source, event):
            # The caller receives the future, and with it the exception.
            with contextlib.suppress(Exception):
                future.result(timeout=MAX_SECONDS)
        return future

    crewai_event_bus.emit = emit_and_wait


def _in_a_handler() -> bool:
    """Return whether this thread belongs to the event bus, and would therefore wait for itself."""
    thread = threading.current_thread()
    return thread.name.startswith("CrewAISyncHandler") or thread is getattr(
        crewai_event_bus, "_loop_thread", None
    )

"""Report the engine's events in the order in which they are emitted.

Patches: crewai.events.event_bus.crewai_event_bus.emit
Versions: 1.14.2 and newer
Why: A handler that is registered with the event bus runs in another thread, and so in another order.
Test: tests/runners/runs/test_endings.py::test_streamed_text_and_tokens_are_reported_as_they_arrive
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crewai.events.event_bus import crewai_event_bus


def apply(report: Callable[[Any], None]) -> None:
    """Call ``report`` with each event before the engine emits it."""
    emit = crewai_event_bus.emit

    def emit_and_report(source: Any, event: Any) -> Any:
        report(event)
        return emit(source, event)

    crewai_event_bus.emit = emit_and_report

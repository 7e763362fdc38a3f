"""Waits for the checkpoints that are being written."""

from __future__ import annotations

import time

from crewai.events.event_bus import crewai_event_bus

MAX_SECONDS = 60


def flush(seconds: float = MAX_SECONDS) -> bool:
    """Wait until no event handler is running. Return False if one still runs after ``seconds``."""
    deadline = time.monotonic() + seconds
    while crewai_event_bus._pending_futures:
        if time.monotonic() > deadline:
            return False
        crewai_event_bus.flush(timeout=max(0.01, deadline - time.monotonic()))
    return True

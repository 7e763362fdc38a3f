"""Waiting for a condition."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Return once the condition holds. Fail if it does not in time."""
    end, pause = time.monotonic() + seconds, 0.01
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(pause)
        # A condition may read the database or all processes, which leaves less for what is waited for.
        pause = min(0.05, pause * 1.2)

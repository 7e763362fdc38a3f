"""Waiting for a condition."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from viewer.host.jobs.processes import RunnerProcess


def wait_until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Return once the condition holds. Fail if it does not in time."""
    end, pause = time.monotonic() + seconds, 0.01
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(pause)
        # A condition may read the database or all processes, which leaves less for what is waited for.
        pause = min(0.05, pause * 1.2)


def exit_status(runner: RunnerProcess, seconds: float = 60) -> int:
    """Return the exit status of a runner once it has exited. Fail if it does not in time."""
    wait_until(lambda: runner.poll() is not None, seconds)
    assert runner.returncode is not None
    return runner.returncode

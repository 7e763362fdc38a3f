"""Enforces a run's limits inside its process, so that they hold even if the worker dies."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter

# The fields of ``Limit`` in viewer/records/limits.py: ``whose``, ``measure`` and ``max_amount``.
Limit = dict[str, Any]
POLL_SECONDS = 0.2


class LimitCounter:
    """Counts what the run's events report, and interrupts the run before it starts more than a limit allows.

    ``maximum`` holds the run's own limits (tokens, seconds, steps). The file ``stop`` appears when a limit
    that the run shares with others is reached. Time spent waiting for a person does not count.
    """

    def __init__(
        self,
        maximum: Mapping[str, float],
        stop: Path,
        is_waiting: Callable[[], bool],
        steps: Collection[str] = (),
    ) -> None:
        # Only these events are refused: a run that has nothing left to start may end.
        self._started = {"model_started", *(f"{step}_started" for step in steps)}
        self._completed = {f"{step}_completed" for step in steps}
        self._maximum = dict(maximum)
        self._stop = stop
        self._is_waiting = is_waiting
        self._lock = threading.Lock()
        self._used: dict[str, float] = {"tokens": 0, "seconds": 0, "steps": 0}
        self._is_over = False

    def lift(self) -> None:
        """Stop enforcing: the run has ended, or is interrupted already."""
        with self._lock:
            self._is_over = True

    def watch_time(self, reporter: Reporter) -> None:
        """Interrupt the run when its time is used up."""
        if "seconds" in self._maximum:
            threading.Thread(target=self._watch, args=(reporter,), daemon=True).start()

    def check(self, reporter: Reporter, kind: str, data: Mapping[str, Any]) -> None:
        """Count an event before it is written. Raises KeyboardInterrupt if what it starts is over a limit."""
        if kind in self._completed:
            self._used["steps"] += 1
        self._used["tokens"] = max(self._used["tokens"], data.get("total_tokens") or 0)
        if kind not in self._started:
            return
        limit = next((one for one in ("tokens", "steps") if self._is_reached(one)), None)
        reached = self._job_limit(limit) if limit else self._shared_limit()
        if reached is not None:
            self._interrupt(reporter, reached)
            # The signal reaches the main thread; this may be another one.
            raise KeyboardInterrupt

    def _job_limit(self, measure: str) -> Limit:
        return {"whose": "job", "measure": measure, "max_amount": self._maximum[measure]}

    def _shared_limit(self) -> Limit | None:
        """Return the shared limit that was reached: None if none was, empty if the file is unreadable."""
        try:
            found = json.loads(self._stop.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            # The file exists: that is enough to stop.
            found = None
        return found if isinstance(found, dict) else {}

    def _is_reached(self, measure: str) -> bool:
        return measure in self._maximum and self._used[measure] >= self._maximum[measure]

    def _watch(self, reporter: Reporter) -> None:
        before = time.monotonic()
        while not (self._is_over or self._is_reached("seconds")):
            time.sleep(POLL_SECONDS)
            now = time.monotonic()
            if not self._is_waiting():
                self._used["seconds"] += now - before
            before = now
        self._interrupt(reporter, self._job_limit("seconds"))

    def _interrupt(self, reporter: Reporter, reached: Limit) -> None:
        """Interrupt the run as a cancel does, once."""
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
        reporter.write("limit", **reached)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

"""Holds a run to its limits from within, so that no worker's death can lift them."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter

# Whose it is, what is counted, and how much of it at most (viewer/jobs/limits/usage.py).
Limit = dict[str, Any]
LOOK_SECONDS = 0.2
# What uses more of something when it begins. A run that only has to end is let end.
BEGINNINGS = {"model_started", "task_started", "method_started"}
STEPS = {"task_completed", "method_completed"}


class Limits:
    """Counts what the run's lines say, and interrupts it where a limit is reached and more would begin.

    ``most`` holds the run's own limits (tokens, seconds, steps). The file ``stop`` holds one which it
    shares with other runs, where it is reached. Time spent waiting for a person does not count.
    """

    def __init__(self, most: Mapping[str, float], stop: Path, is_waiting: Callable[[], bool]) -> None:
        self._most = dict(most)
        self._stop = stop
        self._is_waiting = is_waiting
        self._lock = threading.Lock()
        self._used: dict[str, float] = {"tokens": 0, "seconds": 0, "steps": 0}
        self._is_over = False

    def lift(self) -> None:
        """Interrupt no more: the run has ended, or is being interrupted, which is done once."""
        with self._lock:
            self._is_over = True

    def watch_time(self, reporter: Reporter) -> None:
        """Interrupt the run once its time is used up."""
        if "seconds" in self._most:
            threading.Thread(target=self._watch, args=(reporter,), daemon=True).start()

    def take(self, reporter: Reporter, kind: str, data: Mapping[str, Any]) -> None:
        """Count a line that is about to be written. Raises KeyboardInterrupt where nothing more may begin."""
        if kind in STEPS:
            self._used["steps"] += 1
        self._used["tokens"] = max(self._used["tokens"], data.get("total_tokens") or 0)
        if kind not in BEGINNINGS:
            return
        own = next((one for one in ("tokens", "steps") if self._is_reached(one)), None)
        reached = self._own(own) if own else self._shared()
        if reached is not None:
            self._interrupt(reporter, reached)
            # A task's own thread is not the one that gets the signal.
            raise KeyboardInterrupt

    def _own(self, measure: str) -> Limit:
        return {"whose": "job", "measure": measure, "most": self._most[measure]}

    def _shared(self) -> Limit | None:
        try:
            found = json.loads(self._stop.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            # That it stands there is enough to stop.
            found = None
        return found if isinstance(found, dict) else {}

    def _is_reached(self, measure: str) -> bool:
        return measure in self._most and self._used[measure] >= self._most[measure]

    def _watch(self, reporter: Reporter) -> None:
        before = time.monotonic()
        while not (self._is_over or self._is_reached("seconds")):
            time.sleep(LOOK_SECONDS)
            now = time.monotonic()
            if not self._is_waiting():
                self._used["seconds"] += now - before
            before = now
        self._interrupt(reporter, self._own("seconds"))

    def _interrupt(self, reporter: Reporter, reached: Limit) -> None:
        """What a person's cancel does, once."""
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
        reporter.write("limit", **reached)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

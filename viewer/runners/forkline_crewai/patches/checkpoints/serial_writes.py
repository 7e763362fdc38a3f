"""Write one checkpoint at a time, and report a write that fails.

Patches: crewai.state.checkpoint_listener._do_checkpoint
Versions: 1.14.2 and newer
Why: Two writes at once would both name the same parent. The engine only logs a failed write and continues.
Test: tests/runners/stores/test_failed_writes.py::test_a_run_on_a_full_disk_reports_every_failed_write
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from crewai.state import checkpoint_listener

from forkline_runner.own_checkpoints import Moved
from forkline_runner.reporting import shortened

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter


MAX_REASON = 300
# ``event``: the engine's event that triggered the checkpoint being written in this thread.
current = threading.local()


def apply(reporter: Reporter) -> None:
    """Hold a lock during each write, and report a ``checkpoint_failed`` event for each failed write."""
    lock = threading.RLock()
    write = checkpoint_listener._do_checkpoint

    def written(state: Any, settings: Any, event: Any = None) -> None:
        with lock:
            current.event = event
            try:
                write(state, settings, event)
            except Exception as error:
                reporter.write("checkpoint_failed", error=_reason(error), moved=isinstance(error, Moved))
                raise
            finally:
                current.event = None

    checkpoint_listener._do_checkpoint = written


def _reason(error: Exception) -> str:
    """Return why a write failed, without the path: ``No space left on device``."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return shortened(" ".join(text.split()), MAX_REASON)

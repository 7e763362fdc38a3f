"""Threads that work whenever something has changed."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from django.db import DatabaseError, connection

from viewer.changes import changes_of_data

logger = logging.getLogger(__name__)

# Seconds after a step, in which other threads and writers have their turn.
PAUSE_SECONDS = 0.05
# The longest wait for a change. Bounds how long the thread outlives its process's work.
WAIT_SECONDS = 0.5


@contextmanager
def in_background(
    name: str, step: Callable[[], bool], quiet_seconds: float, max_wait: float = float("inf")
) -> Iterator[None]:
    """Call ``step`` in a thread until the end of the block: at once, and when something has changed.

    While it returns True it is called again. Otherwise changes within ``quiet_seconds`` count as one. Without
    a change, it is called again after ``max_wait`` seconds.
    """
    stopping = threading.Event()
    thread = threading.Thread(
        target=_work, args=(name, step, quiet_seconds, max_wait, stopping), name=name, daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def _work(
    name: str, step: Callable[[], bool], quiet_seconds: float, max_wait: float, stopping: threading.Event
) -> None:
    with closing(changes_of_data()) as changes:
        is_due, due_at = True, 0.0
        while not stopping.is_set():
            more = is_due and _logged(name, step)
            if is_due:
                due_at = time.monotonic() + max_wait
            stopping.wait(PAUSE_SECONDS if more else quiet_seconds if is_due else 0)
            # While there is more to do, nothing has to change.
            is_due = more or changes.wait(WAIT_SECONDS) or time.monotonic() >= due_at
    connection.close()


def _logged(name: str, step: Callable[[], bool]) -> bool:
    """What ``step`` returns. Logs a failure: the next change tries again."""
    try:
        return step()
    except (DatabaseError, OSError) as error:
        # Such as a full disk, or a data folder that is gone. Its message says all that a person can use.
        logger.warning("%s failed: %s", name, error)
        connection.close()
        return False

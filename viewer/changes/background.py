"""Threads that work whenever something has changed."""

import logging
import threading
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
def in_background(name: str, step: Callable[[], bool], quiet_seconds: float) -> Iterator[None]:
    """Call ``step`` in a thread until the end of the block: at once, and when something has changed.

    While it returns True it is called again. Otherwise changes within ``quiet_seconds`` count as one.
    """
    stopping = threading.Event()
    thread = threading.Thread(
        target=_work, args=(name, step, quiet_seconds, stopping), name=name, daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def _work(name: str, step: Callable[[], bool], quiet_seconds: float, stopping: threading.Event) -> None:
    with closing(changes_of_data()) as changes:
        is_changed = True
        while not stopping.is_set():
            more = is_changed and _logged(name, step)
            stopping.wait(PAUSE_SECONDS if more else quiet_seconds if is_changed else 0)
            # While there is more to do, nothing has to change.
            is_changed = more or changes.wait(WAIT_SECONDS)
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

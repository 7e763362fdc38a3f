"""A thread that indexes whenever something has changed."""

import logging
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

from django.db import DatabaseError, connection

from viewer.changes import changes_of_data
from viewer.search.indexing.steps import index_some

logger = logging.getLogger(__name__)

# Seconds of one step, and the pause after it, in which other threads and writers have their turn.
STEP_SECONDS, PAUSE_SECONDS = 0.5, 0.05
# Seconds between two steps if there is nothing left: many changes are indexed at once.
QUIET_SECONDS = 2.0
# The longest wait for a change. Bounds how long the thread outlives its process's work.
WAIT_SECONDS = 0.5


@contextmanager
def indexing_in_background() -> Iterator[None]:
    """Index in a thread until the end of the block."""
    stopping = threading.Event()
    thread = threading.Thread(target=_index, args=(stopping,), name="search-indexing", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def _index(stopping: threading.Event) -> None:
    with closing(changes_of_data()) as changes:
        is_changed = True
        while not stopping.is_set():
            more = is_changed and _step()
            stopping.wait(PAUSE_SECONDS if more else QUIET_SECONDS if is_changed else 0)
            # While there is more to do, nothing has to change.
            is_changed = more or changes.wait(WAIT_SECONDS)
    connection.close()


def _step() -> bool:
    """Whether there may be more to do. Logs a failure: the next change tries again."""
    try:
        return index_some(STEP_SECONDS)
    except (DatabaseError, OSError):
        # Such as a full disk.
        logger.warning("indexing for the search failed", exc_info=True)
        connection.close()
        return False

"""The workers that serve this data folder."""

from collections.abc import Iterator
from contextlib import contextmanager

from viewer.data_folder.locks import Lock, lock_named


def _lock() -> Lock:
    """The lock that each worker holds, shared, while it runs."""
    return lock_named("worker")


@contextmanager
def serving(slots: int) -> Iterator[None]:
    """Register this process as a worker with this many slots within the block."""
    # Another process that tests the lock holds it exclusively for a moment.
    with _lock().held(shared=True, wait=True, note=str(slots)):
        yield


def worker_is_up() -> bool:
    """Whether a worker serves this data folder."""
    return _lock().is_held(shared=True)


def slots() -> int:
    """The number of slots of the newest worker; 0 if no worker has recorded it."""
    note = _lock().note()
    return int(note) if note.isdecimal() else 0

"""The workers that serve this data folder."""

from collections.abc import Iterator
from contextlib import contextmanager

from viewer.locks import Lock, lock_named


def _lock() -> Lock:
    """The lock that each worker holds, shared, while it runs."""
    return lock_named("worker")


@contextmanager
def serving(slots: int) -> Iterator[None]:
    """Be a worker within the block, which runs this many jobs at once."""
    # Waits for a process that tests the lock, and holds it exclusively for that moment.
    with _lock().held(shared=True, wait=True, note=str(slots)):
        yield


def worker_is_up() -> bool:
    """Whether a worker serves this data folder."""
    return _lock().is_held(shared=True)


def slots() -> int:
    """How many jobs the newest worker runs at once. 0 if no worker has recorded it."""
    note = _lock().note()
    return int(note) if note.isdecimal() else 0

"""File locks. The kernel releases a lock when the process that holds it exits, however it exits."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings


def acquire(path: Path, *, shared: bool = False) -> int | None:
    """A descriptor that holds the lock until it is closed, or None if another process holds the lock.

    Creates the file if necessary. The descriptor is not inherited by other programs unless it is passed on.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


@contextmanager
def held(path: Path, *, shared: bool = False) -> Iterator[bool]:
    """Hold the lock within the block. Yields False if another process holds it."""
    descriptor = acquire(path, shared=shared)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def is_held(path: Path, *, shared: bool = False) -> bool:
    """Whether some process holds the lock. ``shared`` says how that process holds it. Creates no file.

    To test for an exclusive lock a shared one is tried, so that two simultaneous tests do not conflict.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if shared else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def worker_lock() -> Path:
    """The lock that each worker holds, shared, while it runs."""
    return Path(settings.DATA_DIR) / "worker.lock"


def worker_is_up() -> bool:
    """Whether a worker serves this data folder."""
    return is_held(worker_lock(), shared=True)


def record_slots(descriptor: int, count: int) -> None:
    """Write to the worker lock's file how many jobs this worker runs at once. The newest worker wins."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(count).encode(), 0)


def slots() -> int:
    """How many jobs the worker runs at once. 0 if no worker has recorded it."""
    try:
        return int(worker_lock().read_text() or 0)
    except (FileNotFoundError, ValueError):
        return 0

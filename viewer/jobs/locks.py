"""Locks that last exactly as long as who holds them: the kernel drops them with the process."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

# Held by whoever launches or follows a job, so that it is one process at a time.
FOLLOWER = "follower.lock"


def acquire(path: Path, *, shared: bool = False) -> int | None:
    """A descriptor that holds the lock until it is closed, or None where another holds it.

    The file is made where it is missing. The descriptor is not inherited unless it is passed on.
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
    """Hold the lock for a while; says whether it was free."""
    descriptor = acquire(path, shared=shared)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def is_held(path: Path, *, shared: bool = False) -> bool:
    """Whether some process holds the lock (``shared`` says how). Makes no file.

    A lock that is held alone is asked for shared, so that two who ask do not see each other.
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
    """Each worker holds it, shared, for as long as it lives."""
    return Path(settings.DATA_DIR) / "worker.lock"


def worker_is_up() -> bool:
    """Whether a worker serves this data folder."""
    return is_held(worker_lock(), shared=True)


def record_slots(descriptor: int, count: int) -> None:
    """Keep how many jobs a worker starts at once, in its lock's file; of several, the newest one counts."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(count).encode(), 0)


def slots() -> int:
    """How many jobs the worker starts at once; 0 where none ever said so."""
    try:
        return int(worker_lock().read_text() or 0)
    except (FileNotFoundError, ValueError):
        return 0

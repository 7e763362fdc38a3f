"""Locks between processes, behind one interface. Only the implementation knows what a lock is made of."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from django.conf import settings

from viewer.locks.file_lock import FileLock


class Lock(Protocol):
    """A lock that is released when the process that holds it exits, however it exits."""

    def held(
        self, *, shared: bool = False, wait: bool = False, note: str = ""
    ) -> AbstractContextManager[bool]:
        """Hold the lock within the block. Yields False if another process holds it, unless ``wait``.

        Any number of processes can hold it ``shared``. Raises OSError if the lock cannot be created.
        """

    def is_held(self, *, shared: bool = False) -> bool:
        """Return whether a process holds the lock exclusively; with ``shared``, whether in either way."""

    def note(self) -> str:
        """Return the note of the last process that held the lock with one; empty if there is none."""


def lock_named(name: str) -> Lock:
    """Return the lock of this name, the same for all processes that serve this data folder. Raises OSError.

    A name may begin with a folder, which is created if necessary.
    """
    path = Path(settings.DATA_DIR) / f"{name}.lock"
    if "/" in name:
        path.parent.mkdir(exist_ok=True, mode=0o700)
    return FileLock(path)

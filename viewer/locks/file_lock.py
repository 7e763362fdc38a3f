"""A lock as a file that the kernel locks."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FileLock:
    """A ``Lock`` on the file at ``path``. The file is created if necessary; its folder must exist."""

    path: Path

    def acquire(self, *, shared: bool = False, wait: bool = False) -> int | None:
        """Return a descriptor that holds the lock until it is closed, or None if another process holds it.

        Started programs do not inherit the descriptor unless it is passed on. Raises OSError.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self.path, flags, 0o600)
        try:
            fcntl.flock(descriptor, _mode(shared=shared) | (0 if wait else fcntl.LOCK_NB))
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                return None
            raise
        return descriptor

    @contextmanager
    def held(self, *, shared: bool = False, wait: bool = False, note: str = "") -> Iterator[bool]:
        descriptor = self.acquire(shared=shared, wait=wait)
        try:
            if note and descriptor is not None:
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, note.encode(), 0)
            yield descriptor is not None
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def is_held(self, *, shared: bool = False) -> bool:
        """Return whether a process holds the lock. Creates no file."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            # An exclusive lock is tested with a shared one, so that simultaneous tests do not conflict.
            fcntl.flock(descriptor, _mode(shared=not shared) | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def note(self) -> str:
        try:
            return self.path.read_text()
        except FileNotFoundError:
            return ""


def _mode(*, shared: bool) -> int:
    return fcntl.LOCK_SH if shared else fcntl.LOCK_EX

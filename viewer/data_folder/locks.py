"""Locks between processes, behind one interface. Only the implementation knows that they are files."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

from viewer import postgresql
from viewer.data_folder.failures import DataFolderFailure

# A lock as a file that the kernel locks.


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
            # A run can replace the file by a pipe, which would wait for a writer, or by a link, and
            # replace the folder by a file.
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
            descriptor = os.open(self.path, flags)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return False
            raise
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


# Locks that protect rows: between all processes that use the database, on whichever machine.


def row_lock(name: str, *, wait: bool = False) -> AbstractContextManager[bool]:
    """Hold the lock of this name within a block. Yields False if somebody else holds it, unless ``wait``.

    Raises OSError, or OperationalError for a server that cannot be reached.
    """
    if postgresql.is_used():
        return postgresql.held(name, wait=wait)
    return lock_named(name).held(wait=wait)


@contextmanager
def exclusive_transaction(name: str) -> Iterator[None]:
    """Run the block in a transaction, and no other transaction of the same name before it is committed.

    So what is read in the block is still true when it writes. SQLite runs one transaction at a time.
    """
    with transaction.atomic():
        if postgresql.is_used():
            postgresql.lock_until_commit(name)
        yield


# The lock on the data folder: each of Forkline's processes holds it, shared, until it exits.


# By data folder. Never closed: a lock is released when its process exits.
_held: dict[str, ExitStack] = {}


def use() -> None:
    """Hold the lock until this process exits. Waits while a restore replaces the database."""
    folder = str(settings.DATA_DIR)
    if folder not in _held:
        held = ExitStack()
        held.enter_context(_lock().held(shared=True, wait=True))
        _held[folder] = held


def end_use() -> None:
    """Release the lock before this process exits."""
    if held := _held.pop(str(settings.DATA_DIR), None):
        held.close()


@contextmanager
def nobody_else() -> Iterator[None]:
    """Hold the lock exclusively. Raises DataFolderFailure if another process uses the folder."""
    with _lock().held() as is_held:
        if not is_held:
            text = _(
                "Forkline is running on %(path)s. Stop it, and wait for commands to end, then try again."
            )
            raise DataFolderFailure(text % {"path": settings.DATA_DIR})
        yield


def _lock() -> Lock:
    return lock_named("in_use")


# The workers that serve this data folder.


def _worker_lock() -> Lock:
    """The lock that each worker holds, shared, while it runs."""
    return lock_named("worker")


@contextmanager
def serving(slots: int) -> Iterator[None]:
    """Register this process as a worker with this many slots within the block."""
    # Another process that tests the lock holds it exclusively for a moment.
    with _worker_lock().held(shared=True, wait=True, note=str(slots)):
        yield


def worker_is_up() -> bool:
    """Whether a worker serves this data folder."""
    return _worker_lock().is_held(shared=True)


def slots() -> int:
    """The number of slots of the newest worker; 0 if no worker has recorded it."""
    note = _worker_lock().note()
    return int(note) if note.isdecimal() else 0

"""Notification of changes that any process makes to rows or files, behind one interface."""

import ctypes
import logging
import os
import select
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from django.conf import settings
from django.db import connection

from viewer import postgresql, sqlite_pragmas
from viewer.data_folder.failures import log_failure

# Changes of files, without polling where the system supports it.


# Of inotify(7).
IN_MODIFY, IN_ATTRIB, IN_MOVED_TO, IN_CREATE = 0x2, 0x4, 0x80, 0x100
MAX_EVENT_BYTES = 65536
# How long a notification of a write may take.
SELF_TEST_SECONDS = 1.0
# Used if the system has no notifications.
FILE_POLL_SECONDS = 0.05


class FileChanges:
    """``Changes`` by writes to the files of some folders. SQLite writes each commit to its log, a file."""

    def __init__(self, descriptor: int | None) -> None:
        self.descriptor = descriptor
        # Unlike ``select``, it takes a descriptor above 1023, as a web server may have.
        self._poll = select.poll()
        if descriptor is not None:
            self._poll.register(descriptor, select.POLLIN)

    def wait(self, seconds: float = 0) -> bool:
        """Without notifications, returns True after a short pause."""
        if self.descriptor is None:
            time.sleep(min(seconds, FILE_POLL_SECONDS))
            return True
        self._poll.poll(1000 * seconds)
        try:
            return bool(os.read(self.descriptor, MAX_EVENT_BYTES))
        except BlockingIOError:
            return False

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def file_changes(folders: Sequence[Path]) -> FileChanges:
    """The changes of these folders. Tests with the first one whether notifications arrive."""
    changes = FileChanges(watching(folders))
    # The folder may be gone, which is for the caller to find out.
    with suppress(OSError):
        os.utime(folders[0])
    if not changes.wait(SELF_TEST_SECONDS):
        # Such as a network file system. From now on, it polls.
        changes.close()
    return changes


def watching(folders: Sequence[Path]) -> int | None:
    """A descriptor that becomes readable at each write, or None if the system has no notifications."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = int(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    if descriptor < 0:
        return None
    events = IN_MODIFY | IN_ATTRIB | IN_MOVED_TO | IN_CREATE
    if all(libc.inotify_add_watch(descriptor, os.fsencode(folder), events) >= 0 for folder in folders):
        return descriptor
    os.close(descriptor)
    return None


# Changes of rows, by the number of commits that SQLite counts.


ROW_POLL_SECONDS = 0.015


class CommitChanges:
    """``Changes`` by commits of other connections to the database at ``path``."""

    def __init__(self, path: Path) -> None:
        # Its own connection: commits of the same one do not count. Autocommit, so that it never waits.
        self._database = sqlite3.connect(str(path), isolation_level=None, check_same_thread=False)
        # The first call says that something has changed.
        self._version = -1

    def wait(self, seconds: float = 0) -> bool:
        ends = time.monotonic() + seconds
        while (version := sqlite_pragmas.data_version(self._database)) == self._version:
            left = ends - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(left, ROW_POLL_SECONDS))
        self._version = version
        return True

    def close(self) -> None:
        self._database.close()


class Descriptor(Protocol):
    """Changes that a descriptor reports. None polls."""

    @property
    def descriptor(self) -> int | None: ...

    def wait(self, seconds: float = 0) -> bool: ...

    def close(self) -> None: ...


class RowAndFileChanges:
    """``Changes`` of rows and of files, waited for at the same time."""

    def __init__(self, *parts: Descriptor) -> None:
        self._parts = parts

    def wait(self, seconds: float = 0) -> bool:
        poll = select.poll()
        for part in self._parts:
            if part.descriptor is None:
                seconds = min(seconds, FILE_POLL_SECONDS)
            else:
                poll.register(part.descriptor, select.POLLIN)
        poll.poll(1000 * seconds)
        changed = [part.wait() for part in self._parts]
        return any(changed)

    def close(self) -> None:
        for part in self._parts:
            part.close()


class Changes(Protocol):
    """What has changed since the last call, or since the notification began."""

    def wait(self, seconds: float = 0) -> bool:
        """Whether something has changed; waits up to ``seconds`` for it. May return True without a change."""

    def close(self) -> None: ...


def changes_of_rows() -> Changes:
    """The commits of other connections to the database. A call that does not wait takes microseconds.

    On a server, those of all connections.
    """
    if postgresql.is_used():
        return postgresql.RowChanges()
    return CommitChanges(Path(connection.settings_dict["NAME"]))


def changes_of_data(*folders: Path) -> Changes:
    """Commits, and writes to the files of these folders. Waiting for them uses no processor time."""
    if postgresql.is_used():
        rows = postgresql.RowChanges()
        return RowAndFileChanges(rows, file_changes(folders)) if folders else rows
    return file_changes([Path(settings.DATA_DIR), *folders])


# Threads that work whenever something has changed.


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
    except Exception as error:
        log_failure(logger, name, error)
        connection.close()
        return False

"""Changes of files, without polling where the system supports it."""

import ctypes
import os
import select
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

# Of inotify(7).
IN_MODIFY, IN_ATTRIB, IN_MOVED_TO, IN_CREATE = 0x2, 0x4, 0x80, 0x100
MAX_EVENT_BYTES = 65536
# How long a notification of a write may take.
SELF_TEST_SECONDS = 1.0
# Used if the system has no notifications.
POLL_SECONDS = 0.05


class FileChanges:
    """``Changes`` by writes to the files of some folders. SQLite writes each commit to its log, a file."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def wait(self, seconds: float = 0) -> bool:
        """Without notifications, returns True after a short pause."""
        if self._descriptor is None:
            time.sleep(min(seconds, POLL_SECONDS))
            return True
        select.select([self._descriptor], [], [], seconds)
        try:
            return bool(os.read(self._descriptor, MAX_EVENT_BYTES))
        except BlockingIOError:
            return False

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


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

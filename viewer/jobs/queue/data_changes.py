"""Waits until another process has written to the data folder, without looking for it again and again."""

import ctypes
import os
import select
import sys
import time
from collections.abc import Iterable
from pathlib import Path

# Of inotify(7).
IN_MODIFY, IN_ATTRIB, IN_MOVED_TO, IN_CREATE = 0x2, 0x4, 0x80, 0x100
MAX_EVENT_BYTES = 65536
# How long it may take to hear of a file that was just written.
SELF_TEST_SECONDS = 1.0
# Where the system does not tell, as often as it costs little.
POLL_SECONDS = 0.05


class Changes:
    """Tells of writes to the files of some folders. SQLite writes each commit to its log there."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._descriptor = watching(folders)

    def wait(self, seconds: float) -> bool:
        """Whether something was written, within so many seconds. Where that is not told, always, and soon."""
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


def watching(folders: Iterable[Path]) -> int | None:
    """A descriptor that becomes readable with each write there. None where the system cannot tell."""
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


def changes_of(folders: list[Path], probe: int) -> Changes:
    """Changes of these folders. ``probe`` is an open file in the first: writing to it has to be told."""
    changes = Changes(folders)
    os.utime(probe)
    if not changes.wait(SELF_TEST_SECONDS):
        # Such as a file system that does not tell.
        changes.close()
        changes._descriptor = None
    return changes

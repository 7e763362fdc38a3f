"""Which folders of JSON files have changed, at any depth, as the kernel reports it by inotify."""

import ctypes
import errno
import os
import select
import struct
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import psutil

# Of inotify(7).
IN_ATTRIB, IN_CLOSE_WRITE, IN_MOVED_FROM, IN_MOVED_TO = 0x4, 0x8, 0x40, 0x80
IN_CREATE, IN_DELETE, IN_DELETE_SELF, IN_MOVE_SELF = 0x100, 0x200, 0x400, 0x800
IN_Q_OVERFLOW, IN_IGNORED, IN_ISDIR = 0x4000, 0x8000, 0x40000000
IN_ONLYDIR, IN_DONT_FOLLOW = 0x01000000, 0x02000000
WATCHED = (
    IN_ATTRIB
    | IN_CLOSE_WRITE
    | IN_MOVED_FROM
    | IN_MOVED_TO
    | IN_CREATE
    | IN_DELETE
    | IN_DELETE_SELF
    | IN_MOVE_SELF
)
EVENT = struct.Struct("iIII")
MAX_EVENT_BYTES = 65536
# The kernel limits the watches of a user. Larger locations are polled.
MAX_FOLDERS = 5_000
# Of other file systems the kernel may not see each write: another machine may make it.
LOCAL_FILE_SYSTEMS = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
)


class FolderChanges:
    """Reports which of several folders have changed. Each is added with a key.

    Folders may contain one another. What is in ``skipped`` is left out, and files not named ``*.json``.
    """

    def __init__(self, skipped: Path) -> None:
        self._skipped = os.path.realpath(skipped)
        self._system = ctypes.CDLL(None, use_errno=True)
        self._descriptor = -1
        if sys.platform == "linux":
            self._descriptor = int(self._system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        # The paths of each watched folder, by key.
        self._watches: defaultdict[int, dict[int, str]] = defaultdict(dict)
        self._sizes: dict[int, int] = {}

    def __contains__(self, key: int) -> bool:
        return key in self._sizes

    def add(self, key: int, root: str) -> bool:
        """Report changes of a folder and those below it from now on. Return False if that is not possible."""
        if self._descriptor < 0:
            return False
        self._sizes.setdefault(key, 0)
        pending = [root]
        while pending:
            path = pending.pop()
            if path == self._skipped:
                continue
            # In this order no folder is missed: it is either listed or reported as new.
            if not self._watch(key, path):
                self.remove(key)
                return False
            pending += folders_in(path)
        return True

    def _watch(self, key: int, path: str) -> bool:
        """Watch one folder. Return False if the limit of watches is reached."""
        flags = WATCHED | IN_ONLYDIR | IN_DONT_FOLLOW
        watch = int(self._system.inotify_add_watch(self._descriptor, os.fsencode(path), flags))
        if watch < 0:
            # The others are gone or may not be listed, which the import reports.
            return ctypes.get_errno() not in (errno.ENOSPC, errno.ENOMEM)
        self._sizes[key] += key not in self._watches[watch]
        self._watches[watch][key] = path
        return self._sizes[key] <= MAX_FOLDERS

    def remove(self, key: int) -> None:
        """Report changes of this folder no longer."""
        self._sizes.pop(key, None)
        for watch in [watch for watch, paths in self._watches.items() if paths.pop(key, None) and not paths]:
            del self._watches[watch]
            self._system.inotify_rm_watch(self._descriptor, watch)

    def wait(self, seconds: float) -> set[int]:
        """Return the keys of the folders that have changed, at the latest after this time."""
        if self._descriptor < 0:
            time.sleep(seconds)
            return set()
        select.select([self._descriptor], [], [], seconds)
        try:
            data = os.read(self._descriptor, MAX_EVENT_BYTES)
        except BlockingIOError:
            return set()
        changed = set[int]()
        for watch, mask, name in events_in(data):
            changed |= set(self._sizes) if mask & IN_Q_OVERFLOW else self._changed_by(watch, mask, name)
        return changed

    def _changed_by(self, watch: int, mask: int, name: str) -> set[int]:
        """Return the keys that an event concerns. Watches a new folder."""
        paths = dict(self._watches.get(watch, {}))
        if mask & IN_IGNORED:
            self._watches.pop(watch, None)
        if mask & IN_ISDIR and name:
            for key, folder in paths.items():
                self.add(key, f"{folder}/{name}")
        elif name and not name.endswith(".json"):
            return set()
        return set(paths)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def folders_in(path: str) -> list[str]:
    """Return the paths of the folders in a folder, without links. Empty if it cannot be listed."""
    try:
        with os.scandir(path) as entries:
            return [one.path for one in entries if one.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def events_in(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield the watch, the mask and the name of each event."""
    at = 0
    while at < len(data):
        watch, mask, _cookie, length = EVENT.unpack_from(data, at)
        at += EVENT.size
        yield watch, mask, os.fsdecode(data[at : at + length].rstrip(b"\0"))
        at += length


def is_local(path: str) -> bool:
    """Return whether a path is on a disk of this machine, so that the kernel sees each change."""
    real = f"{os.path.realpath(path)}/"
    mounts = [
        (len(one.mountpoint), number, one.fstype)
        for number, one in enumerate(psutil.disk_partitions(all=True))
        if real.startswith(f"{one.mountpoint.rstrip('/')}/")
    ]
    # The last one of a folder hides those before it.
    return bool(mounts) and max(mounts)[2] in LOCAL_FILE_SYSTEMS

"""The worker observes the locations of its machine: new checkpoints become rows, also without an open page.

Folders on the disks of this machine report each change. Of other files, sizes and times are compared, and a
database of a server is asked for its mark, every ``LOCATION_POLL_MILLISECONDS``. Folders that report nothing
are listed as often. Every ``CHECK_SECONDS`` each location is imported in any case, which finds what was not
reported.
"""

import ctypes
import errno
import logging
import os
import select
import struct
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from django.conf import settings
from django.db import connection
from django.utils import timezone

from viewer.data_folder.changes import Changes, changes_of_rows
from viewer.data_folder.failures import log_failure
from viewer.host.locations.importing import import_location
from viewer.host.locations.sources import ImportCursor, ImportSummary, address_of
from viewer.host.reading.location_reader import LocationAddress, LocationReader, open_reader
from viewer.models import Location, Problem
from viewer.records.locations import is_indexed
from viewer.stores.protocol import LocationUnreadable

logger = logging.getLogger(__name__)

# Which folders of JSON files have changed, at any depth, as the kernel reports it by inotify.


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
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        poll.poll(1000 * seconds)
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


# The locations that the worker observes.


# Locations that are read at the same time. One that waits for a disk or a server delays no other.
MAX_AT_ONCE = 4
CHECK_SECONDS = 300.0
# How often it is recorded which locations are known not to have changed.
SYNCED_SECONDS = 60.0
# Until a location that could not be read is tried again, if its file or folder has not changed before.
RETRY_SECONDS = 5.0
# Changes in a row are imported together.
QUIET_SECONDS = 0.05
# A location is read again after this multiple of the time that reading it took.
PAUSE_FACTOR, MAX_PAUSE_SECONDS = 10, 10.0
# The longest wait for a change. Bounds how long the thread outlives its process's work.
WAIT_SECONDS = 0.5
# What determines how a location is read. If a person has changed it, the location is read at once.
ADDRESS = ("path", "store_kind", "identity", "engine", "project_id", "import_state")


@dataclass(eq=False)
class Observed:
    """A location, what is known of its source, and when to read it. Times are on the monotonic clock."""

    location: Location
    # Differs from the present one once the source has changed. Empty if it is not known.
    mark: str = ""
    has_changed: bool = True
    # Whether it is on a disk of this machine, so that it reports changes or is compared in microseconds. None
    # until it was read.
    is_local: bool | None = None
    due_at: float = 0.0
    check_at: float = 0.0
    reading: Future[ImportSummary | None] | None = None
    # From where the next import lists a large folder.
    cursor: ImportCursor | None = None
    # The connection to a server or saver at this address, which stays open.
    reader: LocationReader | None = None
    address: LocationAddress | None = None
    connections: ExitStack = field(default_factory=ExitStack)

    @property
    def is_folder(self) -> bool:
        return self.location.store_kind == Location.StoreKind.JSON

    def has_same_address(self, location: Location) -> bool:
        """Return whether the location is read as before."""
        return all(getattr(self.location, name) == getattr(location, name) for name in ADDRESS)

    def close(self) -> None:
        """Close the connection to a server."""
        self.reader = None
        self.connections.close()


class Observer:
    """The locations as one thread observes them. Others read them."""

    def __init__(self, rows: Changes, folders: FolderChanges, readers: ThreadPoolExecutor) -> None:
        self._rows, self._folders, self._readers = rows, folders, readers
        self._all: dict[int, Observed] = {}
        self._is_stale = True
        self._synced_at = time.monotonic()

    def step(self, seconds: float) -> bool:
        """Begin to read what is due, and wait for changes, at most for this time.

        Return whether there are any.
        """
        self._is_stale |= self._rows.wait()
        for pk, one in self._all.items():
            if one.reading is not None and one.reading.done():
                self._finish(pk, one)
        if self._is_stale:
            self._is_stale = self._reload()
        for one in self._all.values():
            if one.reading is None and self._is_due(one):
                is_certain, one.has_changed = one.has_changed, False
                one.reading = self._readers.submit(read_if_changed, one, is_certain=is_certain)
        if time.monotonic() - self._synced_at >= SYNCED_SECONDS:
            self._record_synced()
        changed = self._folders.wait(seconds)
        for pk in changed:
            self._all[pk].has_changed = True
        return bool(changed)

    def _reload(self) -> bool:
        """Find new, changed and removed locations. Return whether some are being read, and remain unknown."""
        locations = Location.objects.here().select_related("project").in_bulk()
        for pk, one in list(self._all.items()):
            if one.reading is None and not (pk in locations and one.has_same_address(locations[pk])):
                self._folders.remove(pk)
                self._all.pop(pk).close()
        for pk, location in locations.items():
            self._all.setdefault(pk, Observed(location))
        return any(one.reading for one in self._all.values())

    def _is_due(self, one: Observed) -> bool:
        now = time.monotonic()
        if now < one.due_at:
            return False
        # Servers and other disks may not answer at once, so another thread asks them.
        return one.has_changed or now >= one.check_at or not one.is_local or file_mark(one) != one.mark

    def _finish(self, pk: int, one: Observed) -> None:
        """Have a folder that was read report its changes."""
        summary, one.reading = one.reading.result() if one.reading else None, None
        if summary is None or not one.is_folder:
            return
        if summary.read_error:
            self._folders.remove(pk)
        elif one.is_local and pk not in self._folders:
            one.is_local = self._folders.add(pk, one.location.path)
            # It may have changed since it was read.
            one.has_changed = True

    def _record_synced(self) -> None:
        """Record the time for all locations that are as they were read. One write wakes the worker once."""
        self._synced_at = time.monotonic()
        synced = [
            pk for pk, one in self._all.items() if one.mark and not one.has_changed and one.reading is None
        ]
        readable = Location.objects.filter(pk__in=synced, read_error__isnull=True, import_state="")
        readable.update(imported_at=timezone.now())

    def close(self) -> None:
        """Close all connections to servers. Nothing may be read meanwhile."""
        for one in self._all.values():
            one.close()


def read_if_changed(one: Observed, *, is_certain: bool) -> ImportSummary | None:
    """Import a location if its source has changed, which may be certain, and set when it is due again.

    Return None if it was not imported, or if that failed.
    """
    began = time.monotonic()
    summary, delay = None, RETRY_SECONDS
    try:
        mark = mark_of(one)
        if is_certain or not mark or mark != one.mark or began >= one.check_at:
            one.check_at = began + CHECK_SECONDS
            # An import that fails leaves a cursor that must not be used again.
            cursor, one.cursor = one.cursor, None
            summary = import_location(one.location, wait=False, cursor=cursor)
            one.cursor = cursor if summary.is_skipped else summary.cursor
            one.mark = mark
            if one.is_local is None and one.location.is_local and not summary.read_error:
                one.is_local = is_local(one.location.path)
        delay = delay_after(one, summary, time.monotonic() - began)
    except Exception:
        # A folder does not report this change again.
        one.has_changed = True
        logger.exception("reading %s", one.location)
    finally:
        connection.close()
    one.due_at = time.monotonic() + delay
    return summary


def mark_of(one: Observed) -> str:
    """Return a text that differs once the source has changed; empty if only an import shows that."""
    if not one.location.is_local:
        return server_mark(one)
    return "" if one.is_folder and not one.is_local else file_mark(one)


def file_mark(one: Observed) -> str:
    """Return the identity of a folder, or the identities, sizes and times of a database's files."""
    marks = []
    for ending in ("",) if one.is_folder else ("", "-wal"):
        try:
            found = os.stat(f"{one.location.path}{ending}")  # noqa: PTH116
        except (OSError, ValueError):
            marks.append("-")
        else:
            contents = "" if one.is_folder else f":{found.st_size}:{found.st_mtime_ns}"
            marks.append(f"{found.st_dev}:{found.st_ino}{contents}")
    return " ".join(marks)


def server_mark(one: Observed) -> str:
    """Return the mark of a database of a server; empty if it does not answer, which an import records."""
    try:
        address = address_of(one.location)
        if one.reader is None or one.address != address:
            # A person may have withdrawn what permits a saver, while its process still answers.
            one.close()
            one.reader, one.address = one.connections.enter_context(open_reader(address)), address
        return one.reader.mark
    except (LocationUnreadable, OSError):
        one.close()
        return ""


def delay_after(one: Observed, summary: ImportSummary | None, taken: float) -> float:
    """Return the seconds until a location is due again, of which reading has taken this long."""
    interval, now = settings.LOCATION_POLL_MILLISECONDS / 1000, time.monotonic()
    if summary is not None and summary.read_error:
        one.check_at = now + RETRY_SECONDS
        return interval if one.is_local else RETRY_SECONDS
    if summary is not None and has_more(one.location, summary):
        one.has_changed = True
        return interval
    if one.is_local:
        return min(PAUSE_FACTOR * taken, interval)
    return max(interval, min(PAUSE_FACTOR * taken, MAX_PAUSE_SECONDS))


def has_more(location: Location, summary: ImportSummary) -> bool:
    """Return whether the next import finds more although the source remains as it is."""
    if summary.is_skipped or location.problems.filter(kind=Problem.Kind.WRITING).exists():
        return True
    if not is_indexed(location):
        return False
    runs = location.runs
    return not location.listed_fingerprint or runs.undescribed().exists() or runs.without_inputs().exists()


@contextmanager
def observing_locations() -> Iterator[None]:
    """Observe all locations in a thread within the block."""
    stopping = threading.Event()
    # Opened here: the data folder may be gone before the thread runs.
    with closing(changes_of_rows()) as rows:
        thread = threading.Thread(target=_observe, args=(rows, stopping), name="observing", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join()


def _observe(rows: Changes, stopping: threading.Event) -> None:
    with (
        closing(FolderChanges(skipped=settings.DATA_DIR)) as folders,
        ThreadPoolExecutor(MAX_AT_ONCE, thread_name_prefix="observing") as readers,
        closing(Observer(rows, folders, readers)) as observer,
    ):
        while not stopping.is_set():
            try:
                has_changed = observer.step(WAIT_SECONDS)
                stopping.wait(QUIET_SECONDS if has_changed else 0)
            except Exception as error:
                log_failure(logger, "observing locations", error)
                connection.close()
                stopping.wait(RETRY_SECONDS)
    connection.close()

"""The worker observes the locations of its machine: new checkpoints become rows, also without an open page.

Folders on the disks of this machine report each change. Of other files, sizes and times are compared, and a
database of a server is asked for its mark, every ``LOCATION_POLL_MILLISECONDS``. Folders that report nothing
are listed as often. Every ``CHECK_SECONDS`` each location is imported in any case, which finds what was not
reported.
"""

import logging
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field

from django.conf import settings
from django.db import DatabaseError, connection
from django.utils import timezone

from viewer.data_folder.changes import Changes, changes_of_rows
from viewer.host.locations.folder_changes import FolderChanges, is_local
from viewer.host.locations.importing import import_location
from viewer.host.locations.results import ImportCursor, ImportSummary
from viewer.host.locations.sources import address_of
from viewer.host.reading.location_reader import LocationAddress, LocationReader, open_reader
from viewer.models import Location, Problem
from viewer.records.locations import is_indexed
from viewer.stores.errors import LocationUnreadable

logger = logging.getLogger(__name__)

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
            except (DatabaseError, OSError) as error:
                # Such as a full disk. Its message says all that a person can use.
                logger.warning("observing locations failed: %s", error)
                connection.close()
                stopping.wait(RETRY_SECONDS)
    connection.close()

"""Lists and reads a location, whose bytes reader processes parse. Keys, ids and bodies are redacted.

There are two ways to list: everything, and what is new since a cursor, which an earlier listing returned. A
folder is listed in this process, which reads only names and sizes. A location is pinned by its identity: it
is read only if its path still leads to the folder or file that was added.
"""

import os
import tempfile
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from viewer.engines import packages
from viewer.host.reading import wire
from viewer.host.reading.pool import (
    ENDED_BY_OTHERS,
    OUT_OF_TIME,
    ReaderProcess,
    Readers,
    patience,
    readers_on,
    wait_for_any,
)
from viewer.host.reading.snapshots import problem_with
from viewer.messages.message import UserMessage
from viewer.redaction import MARKER
from viewer.stores import SaverAddress, ServerAddress
from viewer.stores.json_folder import FolderCursor, JsonFolder
from viewer.stores.protocol import (
    Entry,
    IndexedRun,
    LocationLimitExceeded,
    LocationReplaced,
    LocationUnreadable,
    Packed,
    ReadLimits,
    ReadProblem,
    RunIndex,
    RunList,
    StoreKind,
    too_slow,
    with_redacted_keys,
)
from viewer.stores.safe_open import Found, check_is_sqlite, found_at, is_inside

# More new files are listed with all others, so that an import of many shows its progress.
MAX_ADDED = 400
# For fewer entries, starting a second reader takes longer than reading them.
MIN_ENTRIES_FOR_SEVERAL = 300
# The most entries in one message, and the most entries sent to a reader that it has not answered.
BATCH_SIZE, MAX_UNANSWERED = 10, 120
# The most rows of one store that may each end a reader. Each takes up to the limit of processor time.
MAX_SKIPPED = 8


@dataclass(frozen=True, slots=True)
class LocationAddress:
    """Where a location is, and how it is read.

    ``path`` leads to a folder or file, unless the location is a database of a ``server`` or a project's
    ``saver``. ``identity`` is the recorded identity of that folder or file, if any. ``secrets`` are redacted
    in all texts. ``engine`` is the name of the engine that wrote the checkpoints; if it is empty, each entry
    is read by the first engine that recognises it. ``own`` is Forkline's data folder, which is not read.
    ``store_kind`` is the recorded kind of the store, if any.
    """

    path: Path
    limits: ReadLimits
    roots: Sequence[Path] = ()
    identity: str = ""
    secrets: tuple[str, ...] = ()
    engine: str = ""
    server: ServerAddress | None = None
    own: Path | None = None
    store_kind: str = ""
    saver: SaverAddress | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """Entries and problems of a location.

    Without ``keys``, it is complete: what it lacks does not exist, unless a problem hides it. Otherwise, it
    is about these real keys. The ``cursor`` is for the next listing, after the last item.
    """

    items: Iterable[Entry | ReadProblem]
    keys: Collection[str] | None = None
    cursor: FolderCursor | None = None

    @property
    def is_complete(self) -> bool:
        return self.keys is None


class LocationReader:
    """An open location."""

    def __init__(self, address: LocationAddress, found: Found | None, readers: Readers) -> None:
        self.kind = _kind_of(address, found)
        # None for a database of a server, whose name the settings determine, and for a saver.
        self.identity = found.identity if found else None
        self.limits = address.limits
        self._address, self._found, self._readers = address, found, readers
        self._secrets = address.secrets

    @property
    def mark(self) -> str:
        """A text that differs if the location has changed, or if a refused location might be readable now.

        Raises LocationUnreadable.
        """
        if self._found is None:
            return f"{self._answers(wire.Mark())[-1].mark} {self.limits.mark}"
        # A folder's time changes with the names in it.
        most, changed = self.limits.max_names, self._found.status.st_mtime_ns
        marks = [] if self._found.name else [f"{changed}:{most}"]
        for end in ("", "-wal") if self._found.name else ():
            try:
                status = os.stat(f"{self._found.name}{end}", dir_fd=self._found.folder, follow_symlinks=False)
                marks.append(f"{status.st_size}:{status.st_mtime_ns}:{status.st_ino}")
            except OSError:
                marks.append("-")
        return " ".join([*marks, self.limits.mark])

    def listing(self, since: FolderCursor | None = None, keys: Iterable[str] = ()) -> Listing:
        """Everything, or only what is new since an earlier listing of a folder, and these real keys.

        Everything as well if the cursor does not show all that has changed. Raises LocationUnreadable,
        possibly after the last item.
        """
        if since is not None:
            with self._folder() as folder:
                added = folder.added(since)
            if added is not None and len(added) <= MAX_ADDED:
                return self.listing_of({*added, *keys}, since)
        cursor = FolderCursor() if self.kind == "json" else None
        return Listing(self.entries(cursor), cursor=cursor)

    def listing_of(self, keys: Collection[str], cursor: FolderCursor | None = None) -> Listing:
        """The entries with these keys. Raises LocationUnreadable."""
        return Listing([item for key in sorted(keys) if (item := self.entry(key))], keys, cursor)

    def entries(self, cursor: FolderCursor | None = None) -> Iterator[Entry | ReadProblem]:
        """Every entry, with redacted keys. Adds the names in each folder to the ``cursor``.

        Raises LocationUnreadable, possibly after the last entry. Only if it raises nothing do missing entries
        no longer exist: a location that is moved away during the listing looks empty.
        """
        listed = self._listed(cursor)
        yield from with_redacted_keys(listed, self._secrets)
        if self.identity is None:
            return
        with found_at(self._address.path, self._address.roots) as now:
            if not now.identity.matches(self.identity):
                raise LocationUnreadable("store.disappeared")

    def _listed(self, cursor: FolderCursor | None) -> Iterator[Entry | ReadProblem]:
        if self.kind == "json":
            with self._folder() as folder:
                yield from folder.entries(cursor)
        else:
            yield from self._ask(wire.List())

    def newest(self, limit: int) -> list[Entry]:
        """The newest entries by their names or rows, oldest first, with redacted keys.

        Of a large folder, those of its recently changed folders. Raises LocationUnreadable.
        """
        if self.kind == "json":
            with self._folder() as folder:
                items = folder.newest(limit)
        else:
            items = self._ask(wire.List(limit))
        return list(with_redacted_keys((item for item in items if isinstance(item, Entry)), self._secrets))

    def entry(self, key: str) -> Entry | ReadProblem | None:
        """The entry with this key; None if there is none. Raises LocationUnreadable."""
        if MARKER in key:
            # Only a complete listing shows which real key is redacted to this one.
            return next((item for item in self.entries() if item.key == key), None)
        if self.kind == "json":
            with self._folder() as folder:
                item = folder.entry(key)
        else:
            item = next(iter(self._ask(wire.Find(key))), None)
        return next(with_redacted_keys([item] if item else [], self._secrets), None)

    def read_all(self, entries: Sequence[Entry], max_readers: int) -> Iterator[Packed | ReadProblem]:
        """The checkpoint or problem of each entry, roughly in order."""
        is_worth_several = len(entries) >= MIN_ENTRIES_FOR_SEVERAL and self.kind == "json"
        reading = Reading(self._readers, self.limits, entries, max_readers if is_worth_several else 1)
        yield from reading.results()

    def revealed(self, entry: Entry, pointer: str) -> str:
        """The hidden text at this JSON Pointer of a checkpoint. Raises LocationUnreadable."""
        return self._answers(wire.Reveal(entry, pointer))[-1].revealed

    def _folder(self) -> JsonFolder:
        assert self._found is not None, "It is a folder."
        return JsonFolder(self._found.folder, self.limits, (), self._address.own)

    def _ask(self, message: wire.List | wire.Find) -> list[Entry | ReadProblem]:
        found: list[Entry | ReadProblem] = []
        for part in self._answers(message):
            found += part.entries
            found += part.problems
        return found

    def _answers(self, question: wire.Query) -> list[wire.Reply]:
        return answered(self._readers, question, self.limits)

    def engine(self) -> str:
        """The engine whose own tables a database has; empty if it has none. Raises LocationUnreadable."""
        return "" if self.kind == "json" else self._answers(wire.Identify())[-1].engine

    def store_kind(self) -> StoreKind:
        """The kind of the store, by the tables of an SQLite file. Raises LocationUnreadable."""
        return self.kind if self.kind != "sqlite" else self._answers(wire.Identify())[-1].kind or self.kind

    def runs(self, limit: int | None = None, since: Mapping[str, str] | None = None) -> RunList:
        """The newest runs of an indexed store, or all of them. Raises LocationUnreadable.

        With the digests of stored parts, runs of parts that have the same digest may be left out.
        """
        answers = self._answers(wire.ListRuns(limit, None if since is None else dict(since)))
        listed = answers[-1].run_parts
        return RunList(
            [run for part in answers for run in part.runs],
            [one for part in answers for one in part.problems],
            None if listed is None else frozenset(listed),
        )

    def details(self, keys: Sequence[str]) -> list[IndexedRun]:
        """More about some runs of an indexed store. Raises LocationUnreadable."""
        return [run for part in self._answers(wire.Details(keys)) for run in part.runs]

    def index(self, key: str, *, newest_first: bool = False, since: str = "") -> RunIndex:
        """A run of an indexed store, without bodies. Raises LocationUnreadable."""
        parts = self._answers(wire.Index(key, newest_first, since))
        return RunIndex(
            [run for part in parts for run in part.runs],
            [one for part in parts for one in part.snapshots],
            [one for part in parts for one in part.outline],
            parts[-1].cursor,
            parts[-1].is_appended,
        )


@contextmanager
def open_reader(address: LocationAddress) -> Iterator[LocationReader]:
    """Open a location to list and read it. Raises LocationUnreadable."""
    message = wire.Open(
        "",
        address.limits,
        secrets=address.secrets,
        engines=packages(address.engine),
        server=address.server,
        saver=address.saver,
        kind=address.store_kind,
    )
    with ExitStack() as stack:
        found = None
        if address.server is None and address.saver is None:
            if address.own is not None and is_inside(address.path, address.own):
                raise LocationUnreadable("store.own_data_folder")
            found = stack.enter_context(found_at(address.path, address.roots))
            if address.identity and not found.identity.is_recorded_as(address.identity):
                replaced = LocationReplaced("store.replaced")
                replaced.identity = str(found.identity)
                raise replaced
            if not found.is_folder:
                check_is_sqlite(found)
                # A reader that is killed leaves its copy of the file here.
                scratch = stack.enter_context(
                    tempfile.TemporaryDirectory(prefix="forkline-", ignore_cleanup_errors=True)
                )
                message = msgspec.structs.replace(
                    message, name=found.name, identity=str(found.identity), scratch=scratch
                )
        readers = stack.enter_context(readers_on(message, found.folder if found else None))
        yield LocationReader(address, found, readers)


def _kind_of(address: LocationAddress, found: Found | None) -> StoreKind:
    if found is None:
        return "postgresql" if address.saver is None else "saver"
    return "json" if found.is_folder else "sqlite"


def answered(readers: Readers, message: wire.Query, limits: ReadLimits) -> list[wire.Reply]:
    """The parts of a reader's reply to a query. Raises LocationUnreadable.

    If a row ends the reader or exceeds its limits, another reader replies without the values of that row.
    """
    passing_errors = 0
    while passing_errors < 2:
        try:
            reader = readers.want(1)[0]
        except OSError as error:
            text = _cannot_start(error)
            raise LocationUnreadable(text) from None
        try:
            reader.send(message)
            return _parts(reader, patience(limits))
        except TimeoutError:
            readers.drop(reader)
            raise LocationUnreadable("store.read_timed_out") from None
        except LocationLimitExceeded as error:
            failed = error
        except (OSError, EOFError, msgspec.MsgspecError):
            status = reader.status()
            if status in ENDED_BY_OTHERS | {0}:
                passing_errors += 1
                readers.drop(reader)
                continue
            failed = LocationLimitExceeded(_why_ended(status, limits))
        row, seconds = reader.noted_row()
        readers.drop(reader)
        # If many rows took the time together, leaving out the last one would not help.
        is_to_blame = failed.message != too_slow(limits).message or seconds < limits.max_seconds / 2
        if not is_to_blame or len(readers.skipped) >= MAX_SKIPPED or not readers.skip(row):
            raise failed
    raise LocationUnreadable("store.reader_stopped")


def _parts(reader: ReaderProcess, seconds: float) -> list[wire.Reply]:
    found: list[wire.Reply] = []
    while True:
        reply = reader.reply(seconds)
        if reply is None:
            raise TimeoutError
        if reply.unreadable is not None:
            kind = LocationLimitExceeded if reply.is_over_limit else LocationUnreadable
            raise kind(reply.unreadable)
        found.append(reply)
        if reply.is_last:
            return found


class Reading:
    """Entries that are read by at most ``max_readers`` processes."""

    def __init__(
        self, readers: Readers, limits: ReadLimits, entries: Sequence[Entry], max_readers: int
    ) -> None:
        self._readers, self._limits, self._max_readers = readers, limits, max_readers
        self._pending = deque(entries)
        # Keys of the entries at which another program ended a reader.
        self._ended_at: set[str] = set()

    def results(self) -> Iterator[Packed | ReadProblem]:
        """One result for each entry."""
        while self._pending or any(reader.unanswered for reader in self._readers.all):
            try:
                yield from self._send()
            except OSError as error:
                yield from self._without_new_reader(error)
                continue
            busy = [reader for reader in self._readers.all if reader.unanswered]
            for reader in wait_for_any(busy, 1.0):
                yield from self._answers(reader)
            for reader in busy:
                if reader in self._readers.all:
                    yield from self._timed_out(reader)

    def _send(self) -> Iterator[ReadProblem]:
        """Send each reader more entries, in turn. Raises OSError if no reader can be started."""
        has_sent = True
        while self._pending and has_sent:
            has_sent = False
            # Readers get fewer entries towards the end, so that all of them finish at about the same time.
            max_unanswered = max(1, min(MAX_UNANSWERED, len(self._pending) // 4))
            for reader in list(self._readers.want(self._max_readers)):
                if self._pending and len(reader.unanswered) < max_unanswered:
                    count = min(BATCH_SIZE, len(self._pending))
                    entries = [self._pending.popleft() for _ in range(count)]
                    has_sent = True
                    try:
                        reader.send(wire.Batch(entries))
                    except OSError:
                        yield from self._lost(reader)

    def _answers(self, reader: ReaderProcess) -> Iterator[Packed | ReadProblem]:
        try:
            while reader.unanswered and (reply := reader.reply(0)) is not None:
                if result := reply.read or reply.problem:
                    yield result
        except (OSError, EOFError, msgspec.MsgspecError):
            yield from self._lost(reader)

    def _lost(self, reader: ReaderProcess) -> Iterator[ReadProblem]:
        """Give the entries of a reader that has ended to other readers, except the entry that ended it."""
        status, unanswered = reader.status(), list(reader.unanswered)
        self._readers.drop(reader)
        if status != 0 and unanswered:
            entry = unanswered.pop(0)
            if status not in ENDED_BY_OTHERS:
                yield problem_with(entry, "refused", _why_ended(status, self._limits))
            elif entry.key in self._ended_at:
                reason = UserMessage("store.reader_stopped_twice")
                yield problem_with(entry, "unavailable", reason)
            else:
                self._ended_at.add(entry.key)
                unanswered.insert(0, entry)
        self._pending.extendleft(reversed(unanswered))

    def _timed_out(self, reader: ReaderProcess) -> Iterator[ReadProblem]:
        """Drop a reader that has not answered for longer than ``patience`` allows."""
        seconds = patience(self._limits)
        if reader.silent_since is None or time.monotonic() - reader.silent_since < seconds:
            return
        entry, *rest = reader.unanswered
        self._readers.drop(reader)
        reason = UserMessage("store.no_answer", {"most": int(seconds)})
        yield problem_with(entry, "unavailable", reason)
        self._pending.extendleft(reversed(rest))

    def _without_new_reader(self, error: OSError) -> Iterator[ReadProblem]:
        """Continue with the running readers; without any, report all pending entries as unavailable."""
        if not self._readers.all:
            while self._pending:
                yield problem_with(self._pending.popleft(), "unavailable", _cannot_start(error))
        self._max_readers = len(self._readers.all)


def _why_ended(status: int, limits: ReadLimits) -> UserMessage:
    """Why an entry has ended a reader with this status."""
    if status in OUT_OF_TIME:
        return too_slow(limits).message
    return UserMessage("store.reader_crashed", {"status": status})


def _cannot_start(error: OSError) -> UserMessage:
    why = str(error.strerror or error)
    return UserMessage("store.reader_not_started", {"why": why})

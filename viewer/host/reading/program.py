"""The reader process: parses the bytes of a location, within hard limits of memory and processor time.

It imports neither Django nor an engine, and opens files only for reading and below the descriptor that it
is given. It exits when its input ends, or after ``IDLE_SECONDS`` without a request.
"""

import contextlib
import gc
import os
import resource
import select
import signal
import socket
import threading
import time
from collections.abc import Iterator

import msgspec

from viewer.engines import store_format_in
from viewer.host.reading import wire
from viewer.host.reading.snapshots import peak_memory, problem_with, read_packed, revealed_value
from viewer.redaction.known_secrets import known_secrets
from viewer.stores import DatabaseFile, Identity, SaverAddress, ServerAddress
from viewer.stores.json_folder import JsonFolder
from viewer.stores.protocol import (
    Entry,
    IndexedStore,
    LocationLimitExceeded,
    LocationUnreadable,
    Packed,
    ProblemKind,
    ReadProblem,
    Store,
    StoreFormat,
)
from viewer.stores.sqlite_store import SqliteStore

# A reader ends after this time without a request.
IDLE_SECONDS = 300
# The timer fires a little before the limit that messages name, as a share of it.
TIMER_SHARE = 0.9
LIST_CHUNK = 500
# Of the second thread, which only waits.
STACK_BYTES = 256 * 1024
# A reader with a higher peak is replaced, since the memory that it still holds would count for the next file.
RETIRE_BYTES = 96 * 1024 * 1024


def serve(note: int) -> None:
    """Answer messages until the input ends, or none has arrived for ``IDLE_SECONDS``.

    ``note`` is the descriptor of a file that names the row that is being read, for when this process dies.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    source = socket.socket(fileno=0)
    reader = Reader(note)
    threading.stack_size(STACK_BYTES)
    threading.Thread(target=_end_with_parent, args=(source, reader), daemon=True).start()
    requests = select.poll()
    requests.register(source, select.POLLIN)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while requests.poll(IDLE_SECONDS * 1000):
            reader.handle(*_received(source))


def _end_with_parent(source: socket.socket, reader: "Reader") -> None:
    """Wait until the process that asks has closed its end or died, then end this process at once.

    The main thread may be waiting for a server, and would notice it only at its next reply.
    """
    gone = select.poll()
    gone.register(source, select.POLLHUP | getattr(select, "POLLRDHUP", 0))
    gone.poll()
    try:
        reader.abandon()
    finally:
        os._exit(0)


class Reader:
    """The state of a reader process: at most one open store."""

    def __init__(self, note: int) -> None:
        self._note = note
        # The process time at which the current query began, in seconds.
        self._started = 0.0
        self._opened: wire.Open | None = None
        self._folder = -1
        self._store: Store | None = None
        # The same store, if it is an indexed one, also while it is being opened.
        self._indexed: IndexedStore | None = None
        self._opening: IndexedStore | None = None

    def handle(self, message: wire.ReaderMessage, folder: int | None) -> None:
        """Write the replies to a message."""
        match message:
            case wire.Open():
                self._close()
                self._opened, self._folder = message, -1 if folder is None else folder
                _limit_memory(message.limits.max_memory)
            case wire.Batch(entries):
                for entry in entries:
                    self._read(entry)
            case wire.Close():
                self._close()
                _write(wire.Reply(is_last=True))
            case _:
                self._reply(message)

    def abandon(self) -> None:
        """End what another program does for the open store. Called by another thread."""
        if self._opening is not None:
            self._opening.abandon()

    def _close(self) -> None:
        if self._store is not None:
            self._store.__exit__(None, None, None)
            self._store = self._indexed = self._opening = None
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    def _open_message(self) -> wire.Open:
        assert self._opened is not None, "A store is opened before anything is asked of it."
        return self._opened

    def _open_store(self) -> Store:
        """The store, opened when it is first needed. Raises LocationUnreadable."""
        if self._store is None:
            message = self._open_message()
            formats = [store_format_in(package) for package in message.engines]
            if (database := message.server or message.saver) is not None:
                self._store = self._opened_database(database, message, formats)
            elif message.name:
                self._store = self._opened_file(message, formats)
            else:
                self._store = JsonFolder(self._folder, message.limits, formats).__enter__()
        return self._store

    def _opened_file(self, message: wire.Open, formats: list[StoreFormat]) -> Store:
        """The store of the first engine whose tables are in this file, or else of the plain table."""
        identity = Identity.parse(message.identity)
        file = DatabaseFile(self._folder, message.name, message.scratch or None, identity)
        try:
            return self._opened_database(file, message, formats)
        except LocationUnreadable:
            if len(formats) == 1 and formats[0].is_indexed:
                raise
        return self._opened_rows(file, message, formats)

    def _opened_rows(self, file: DatabaseFile, message: wire.Open, formats: list[StoreFormat]) -> Store:
        """The store of a file's checkpoints, or of an engine's states if it has no table of checkpoints."""
        stores = list[Store]()
        if message.kind != "states":
            stores.append(SqliteStore(file, message.limits, formats))
        if message.kind != "sqlite":
            stores += filter(None, (one.state_store(file, message.limits, formats) for one in formats))
        reason = LocationUnreadable("store.no_table")
        for store in stores:
            try:
                return store.__enter__()
            except LocationUnreadable as error:
                reason = error
                if error.message.code != "store.no_table":
                    break
        raise reason

    def _opened_database(
        self,
        database: DatabaseFile | ServerAddress | SaverAddress,
        message: wire.Open,
        formats: list[StoreFormat],
    ) -> Store:
        """The store of the first engine whose tables are in this database. Raises LocationUnreadable."""
        known = known_secrets(message.secrets)
        reason = LocationUnreadable("store.no_table")
        for store_format in formats:
            indexed = store_format.indexed_store(database, message.limits, formats, known)
            if indexed is not None:
                indexed.announce, indexed.skipped = self._announce, frozenset(message.skipped)
                self._opening = indexed
                try:
                    self._indexed = indexed.__enter__()
                except LocationUnreadable as error:
                    reason, self._opening = error, None
                else:
                    return self._indexed
        raise reason

    def _announce(self, row: str) -> None:
        """Note which row is being read, and how long the query has taken."""
        note = f"{time.process_time() - self._started:.3f} {row}"
        os.pwrite(self._note, note.encode().ljust(wire.NOTE_BYTES), 0)

    def _reply(self, query: wire.Query) -> None:
        """Write the parts of the reply to a query."""
        self._started = time.process_time()
        self._announce("")
        # A reply has thousands of objects and hardly any garbage, so collecting would only take time.
        gc.disable()
        try:
            with self._timed():
                parts = list(_parts_of(self._reply_of(query)))
        except LocationUnreadable as error:
            is_over_limit = isinstance(error, LocationLimitExceeded)
            _write(wire.Reply(is_last=True, unreadable=error.message, is_over_limit=is_over_limit))
            return
        finally:
            gc.enable()
        for part in parts:
            _write(part)

    def _reply_of(self, query: wire.Query) -> wire.Reply:
        """The whole reply. Raises LocationUnreadable."""
        store = self._open_store()
        indexed = self._indexed
        match query:
            case wire.Identify():
                return wire.Reply(engine=getattr(indexed, "engine", ""), kind=store.kind)
            case wire.Find(key):
                items = [item for item in [store.entry(key)] if item]
            case wire.List(newest):
                items = list(store.entries())[-newest if newest else None :]
            case wire.Reveal(entry, pointer):
                known = known_secrets(self._open_message().secrets)
                return wire.Reply(revealed=revealed_value(store, entry, pointer, known))
            case _ if indexed is None:
                raise LocationUnreadable("store.no_table")
            case wire.Mark():
                return wire.Reply(mark=indexed.mark())
            case wire.ListRuns(limit, since):
                listed = indexed.runs(limit, since)
                parts = None if listed.parts is None else sorted(listed.parts)
                return wire.Reply(runs=listed.runs, problems=listed.problems, run_parts=parts)
            case wire.Details(keys):
                return wire.Reply(runs=indexed.details(keys))
            case wire.Index(key, newest_first, since):
                index = indexed.index(key, newest_first=newest_first, since=since)
                return wire.Reply(
                    runs=index.runs,
                    snapshots=index.snapshots,
                    outline=index.outline,
                    cursor=index.cursor,
                    is_appended=index.is_appended,
                )
        entries = [item for item in items if isinstance(item, Entry)]
        return wire.Reply(entries=entries, problems=[item for item in items if isinstance(item, ReadProblem)])

    def _read(self, entry: Entry) -> None:
        """Answer with a redacted checkpoint or a problem."""
        try:
            with self._timed():
                known = known_secrets(self._open_message().secrets)
                result = read_packed(self._open_store(), entry, known)
        except LocationUnreadable as error:
            kind: ProblemKind = "refused" if isinstance(error, LocationLimitExceeded) else "unavailable"
            result = problem_with(entry, kind, error.message)
        _write(wire.Reply(read=result) if isinstance(result, Packed) else wire.Reply(problem=result))
        if _peak_memory() > RETIRE_BYTES:
            # Starting a new process takes no longer than freeing the memory of this one.
            os._exit(0)

    @contextlib.contextmanager
    def _timed(self) -> Iterator[None]:
        """Make the system end this process if the block takes too much processor time."""
        signal.setitimer(signal.ITIMER_PROF, self._open_message().limits.max_seconds * TIMER_SHARE)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)


def _limit_memory(limit: int) -> None:
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _peak_memory() -> int:
    """The most bytes that this process has had in memory."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if peak > RETIRE_BYTES:
        # The maximum includes the memory of the parent when it started this process.
        peak = peak_memory(["VmHWM"]) or peak
    return peak


def _write(reply: wire.Reply) -> None:
    data = memoryview(wire.framed(reply))
    while data:
        data = data[os.write(1, data) :]


def _received(source: socket.socket) -> tuple[wire.ReaderMessage, int | None]:
    """The next message, and the descriptor that came with it. Raises EOFError."""
    size, folders = b"", list[int]()
    while len(size) < 4:
        data, descriptors, _flags, _address = socket.recv_fds(source, 4 - len(size), 1)
        if not data:
            raise EOFError
        size += data
        folders += descriptors
    frame = bytearray()
    missing = int.from_bytes(size, "big")
    while len(frame) < missing:
        if not (data := source.recv(min(missing - len(frame), 1024 * 1024))):
            raise EOFError
        frame += data
    return wire.decode_message(frame), folders[0] if folders else None


def _parts_of(reply: wire.Reply) -> Iterator[wire.Reply]:
    """A reply in parts that take little memory to send. The last part has ``is_last``."""
    names = ("entries", "problems", "runs", "snapshots", "outline")
    longest = max(len(getattr(reply, name)) for name in names)
    for at in range(0, longest, LIST_CHUNK):
        yield wire.Reply(**{name: getattr(reply, name)[at : at + LIST_CHUNK] for name in names})
    yield msgspec.structs.replace(reply, is_last=True, **{name: [] for name in names})

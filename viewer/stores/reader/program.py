"""The reader process: parses what is found at a location, within hard limits of memory and processor time.

It imports neither Django nor an engine, opens files only for reading and beneath the descriptor that it was
given, and ends with its input, or when nobody has asked for a while.
"""

import contextlib
import os
import resource
import select
import signal
import socket
from collections.abc import Iterator

from viewer.engines import store_format_in
from viewer.redaction.known_secrets import known_secrets
from viewer.stores.json_folder import JsonFolder
from viewer.stores.packing import Packed, most_memory, read_packed
from viewer.stores.protocol import Entry, LocationRefused, LocationUnreadable, ProblemKind, ReadProblem, Store
from viewer.stores.reader.wire import Answer, Batch, Close, Find, List, Message, Open, decode_message, framed
from viewer.stores.readonly_sqlite import DatabaseFile
from viewer.stores.safe_open import Identity
from viewer.stores.sqlite import SqliteStore

# A reader that nobody asked for so long ends.
IDLE_SECONDS = 300
# The system ends it a little before the time is over in which a person was promised an answer.
SHARE_OF_TIME, SHARE_TO_STOP = 0.9, 0.8
LISTED_AT_ONCE = 500
# One that once needed more is replaced: what is left in its heap would count for the next file.
RETIRE_BYTES = 96 * 1024 * 1024


def serve() -> None:
    """Answer messages until there are no more."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    source = socket.socket(fileno=0)
    reader = Reader()
    waiting = select.poll()
    waiting.register(source, select.POLLIN)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while waiting.poll(IDLE_SECONDS * 1000):
            reader.handle(*_received(source))


class Reader:
    """What one reader process has open: at most one store."""

    def __init__(self) -> None:
        self._opened: Open | None = None
        self._folder = -1
        self._provider: Store | None = None
        self._seconds = 0.0

    def handle(self, message: Message, folder: int | None) -> None:
        """Do as asked, and write the answers."""
        match message:
            case Open():
                assert folder is not None, "The folder's descriptor comes with the message."
                self._open(message, folder)
            case List() | Find():
                self._list(message)
            case Batch(entries):
                for entry in entries:
                    self._read(entry)
            case Close():
                self._close()
                _write(Answer(is_last=True))

    def _open(self, message: Open, folder: int) -> None:
        self._close()
        self._opened, self._folder = message, folder
        _limit_memory(message.limits.max_memory)
        self._seconds = message.limits.max_seconds

    def _close(self) -> None:
        if self._provider is not None:
            self._provider.__exit__(None, None, None)
            self._provider = None
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    def _ready(self) -> Store:
        """The store, opened when it is first needed. Raises LocationUnreadable."""
        if self._provider is None:
            assert self._opened is not None, "A store is opened before anything is asked of it."
            limits, name = self._opened.limits, self._opened.name
            formats = [store_format_in(package) for package in self._opened.engines]
            provider: Store
            if name:
                identity = Identity.parse(self._opened.identity)
                store = DatabaseFile(self._folder, name, self._opened.scratch or None, identity)
                provider = SqliteStore(store, limits, formats)
            else:
                provider = JsonFolder(self._folder, limits, formats)
            provider.known = known_secrets(self._opened.secrets)
            self._provider = provider.__enter__()
        return self._provider

    def _list(self, message: List | Find) -> None:
        try:
            with self._timed():
                provider = self._ready()
                one = provider.entry(message.key) if isinstance(message, Find) else None
                items = list(provider.entries()) if isinstance(message, List) else [one] if one else []
        except LocationUnreadable as error:
            is_refused = isinstance(error, LocationRefused)
            _write(Answer(is_last=True, unreadable=error.words, is_refused=is_refused))
            return
        for at in range(0, len(items), LISTED_AT_ONCE):
            some = items[at : at + LISTED_AT_ONCE]
            entries = [item for item in some if isinstance(item, Entry)]
            _write(Answer(entries=entries, faults=[item for item in some if isinstance(item, ReadProblem)]))
        _write(Answer(is_last=True))

    def _read(self, entry: Entry) -> None:
        try:
            with self._timed():
                result = read_packed(self._ready(), entry)
        except LocationUnreadable as error:
            kind: ProblemKind = "refused" if isinstance(error, LocationRefused) else "unavailable"
            result = ReadProblem(entry.key, error.words, kind, entry.fingerprint, entry.changed_at)
        _write(Answer(read=result) if isinstance(result, Packed) else Answer(fault=result))
        if _most_memory_used() > RETIRE_BYTES:
            # No more than a new process costs.
            os._exit(0)

    @contextlib.contextmanager
    def _timed(self) -> Iterator[None]:
        """Be ended by the system where this takes too much of the processor's time."""
        signal.setitimer(signal.ITIMER_PROF, self._seconds * SHARE_OF_TIME)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)


def _limit_memory(most: int) -> None:
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _most_memory_used() -> int:
    """The most bytes that this process has had in memory."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if most > RETIRE_BYTES:
        # That counts what the parent had when it started this process.
        most = most_memory(["VmHWM"]) or most
    return most


def _write(answer: Answer) -> None:
    data = memoryview(framed(answer))
    while data:
        data = data[os.write(1, data) :]


def _received(source: socket.socket) -> tuple[Message, int | None]:
    """The next message, and the descriptor that came with it. Raises EOFError."""
    size, folders = b"", list[int]()
    while len(size) < 4:
        data, descriptors, _flags, _address = socket.recv_fds(source, 4 - len(size), 1)
        if not data:
            raise EOFError
        size += data
        folders += descriptors
    frame = bytearray()
    left = int.from_bytes(size, "big")
    while len(frame) < left:
        if not (data := source.recv(min(left - len(frame), 1024 * 1024))):
            raise EOFError
        frame += data
    return decode_message(frame), folders[0] if folders else None

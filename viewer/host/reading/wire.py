"""The messages between an import and its reader processes: MessagePack after its length in four bytes.

A reader parses hostile bytes, so its replies are decoded into known types and never unpickled.
"""

import select
import time
from collections.abc import Sequence
from typing import IO

import msgspec

from viewer.messages.message import UserMessage
from viewer.stores import SaverAddress, ServerAddress
from viewer.stores.protocol import Entry, IndexedRun, Packed, ReadLimits, ReadProblem, Snapshot, StoreKind

# The size of the note that names the row that a reader reads.
NOTE_BYTES = 64
# The number of bytes read from a pipe at a time.
CHUNK_BYTES = 1024 * 1024


class Open(msgspec.Struct, array_like=True, tag="open"):
    """Open this store until ``Close``. A descriptor of its folder comes with the message.

    ``name`` is the name of an SQLite file in the folder; empty for a folder of JSON files. ``identity`` is
    the file's identity. ``scratch`` is a folder for a copy of the file. ``secrets`` are redacted in all
    texts, and never written to disk. ``engines`` are the packages whose store formats are tried, in order.
    ``server`` is set instead of a folder for a database of a server. It is never written to disk or logged.
    ``saver`` is set instead for a checkpoint saver of a project.
    ``skipped`` are the rows that have ended a reader of this store, as ``IndexedStore.announce`` named them.
    ``kind`` is the recorded kind of an SQLite file; empty if it has to be found.
    """

    name: str
    limits: ReadLimits
    identity: str = ""
    scratch: str = ""
    secrets: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    server: ServerAddress | None = None
    saver: SaverAddress | None = None
    skipped: tuple[str, ...] = ()
    kind: str = ""


class List(msgspec.Struct, array_like=True, tag="list"):
    """List all entries of the store, or only the newest."""

    newest: int | None = None


class Find(msgspec.Struct, array_like=True, tag="find"):
    """Find the entry with this key."""

    key: str


class Identify(msgspec.Struct, array_like=True, tag="identify"):
    """Find the engine whose own tables the store has."""


class Mark(msgspec.Struct, array_like=True, tag="mark"):
    """Find out whether an indexed store may have changed."""


class ListRuns(msgspec.Struct, array_like=True, tag="runs"):
    """List the newest runs of an indexed store, or all. Parts with the digest ``since`` may be left out."""

    limit: int | None = None
    since: dict[str, str] | None = None


class Details(msgspec.Struct, array_like=True, tag="details"):
    """Find out more about the runs with these keys."""

    keys: Sequence[str]


class Index(msgspec.Struct, array_like=True, tag="index"):
    """List the checkpoints of the run with this key, or only those of a long run that are shown first.

    With ``since``, those that have not changed since this cursor may be left out.
    """

    key: str
    newest_first: bool = False
    since: str = ""


class Reveal(msgspec.Struct, array_like=True, tag="reveal"):
    """Read one value of a checkpoint that redaction hides, at this JSON Pointer, as it is."""

    entry: Entry
    pointer: str


class Batch(msgspec.Struct, array_like=True, tag="read"):
    """Read these entries. One reply follows for each, in this order."""

    entries: Sequence[Entry]


class Close(msgspec.Struct, array_like=True, tag="close"):
    """Close the store."""


Query = List | Find | Identify | Mark | ListRuns | Details | Index | Reveal
ReaderMessage = Open | Query | Batch | Close


class Reply(msgspec.Struct, omit_defaults=True):
    """The result of one entry (``read`` or ``problem``), or a part of a list, which ends with ``is_last``.

    ``engine`` and ``kind`` are for ``Identify``. ``mark``, ``runs``, ``run_parts``, ``snapshots``,
    ``outline``, ``cursor`` and ``is_appended`` are for queries of an indexed store. ``revealed`` is for
    ``Reveal``, the only reply that has a secret. ``unreadable`` is the reason why nothing could be listed.
    ``is_over_limit`` is true if listing exceeds the limits.
    """

    read: Packed | None = None
    problem: ReadProblem | None = None
    entries: list[Entry] = []
    problems: list[ReadProblem] = []
    engine: str = ""
    kind: StoreKind | None = None
    mark: str = ""
    runs: list[IndexedRun] = []
    run_parts: list[str] | None = None
    snapshots: list[Snapshot] = []
    outline: list[tuple[str, str, str]] = []
    cursor: str = ""
    is_appended: bool = False
    revealed: str = ""
    is_last: bool = False
    unreadable: UserMessage | None = None
    is_over_limit: bool = False


_encode = msgspec.msgpack.encode
decode_message = msgspec.msgpack.Decoder(ReaderMessage).decode
_decode_reply = msgspec.msgpack.Decoder(Reply).decode


def framed(message: ReaderMessage | Reply) -> bytes:
    """The message after its length."""
    frame = _encode(message)
    return len(frame).to_bytes(4, "big") + frame


class Replies:
    """The replies that come through a pipe."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self.pipe = pipe
        self._data = bytearray()
        self._poll = select.poll()
        self._poll.register(pipe, select.POLLIN)

    def next(self, seconds: float) -> Reply | None:
        """The next reply; None if none comes within this time.

        Raises EOFError if the pipe is closed, OSError, and msgspec.MsgspecError for an invalid reply.
        """
        end = time.monotonic() + seconds
        while True:
            size = 4 + int.from_bytes(self._data[:4], "big")
            if len(self._data) >= max(size, 5):
                with memoryview(self._data) as view:
                    reply = _decode_reply(view[4:size])
                del self._data[:size]
                return reply
            remaining = max(0.0, end - time.monotonic())
            if not self._poll.poll(remaining * 1000):
                return None
            if not (data := self.pipe.read(CHUNK_BYTES)):
                raise EOFError
            self._data += data

"""The threads of a project's checkpoint saver, which another process reads in the project's interpreter.

That process runs the project's code (viewer/runners/forkline_langgraph/saver_reader.py), so nothing that it
sends is trusted: the size and the time of an answer are limited, it is decoded into known types, and each
checkpoint counts once. Imported only in a reader process.
"""

import hashlib
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Literal, Self

import msgspec

from viewer.engines.langgraph.decoding import Decoder
from viewer.engines.langgraph.identifiers import MAX_ID_LENGTH
from viewer.engines.langgraph.tables import (
    MAX_ID_BYTES,
    MAX_METADATA_BYTES,
    MAX_NAMING_BYTES,
    MAX_ROWS,
    MAX_WRITES,
    UNLIMITED,
    CheckpointKey,
    CheckpointRow,
    Ends,
    Key,
    ThreadRow,
    WriteRow,
)
from viewer.engines.langgraph.threads import Result, StoredCheckpoint
from viewer.messages.catalog import CATALOG
from viewer.redaction.known_secrets import KnownSecrets, redact_text
from viewer.stores import SaverAddress, protocol

# The project's code is imported before the first answer.
ANSWER_SECONDS = 30
# Ids, metadata and small writes of a thread, beside the bytes of one checkpoint.
MAX_LISTED_BYTES = 64 * 1024 * 1024
CHUNK_BYTES = 1024 * 1024


# Bytes, as a column can hold them.
Size = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Refusal(msgspec.Struct):
    """Why the saver could not be read: a code of the catalogue, and its values."""

    code: str
    values: dict[str, str | int]


class SentWrite(msgspec.Struct, array_like=True):
    """A write without its type: values are MessagePack. ``value`` is None if it is too large."""

    task_id: str
    index: int
    channel: str
    size: Size
    value: bytes | None


class SentRow(msgspec.Struct, array_like=True):
    """A checkpoint of a thread, with its writes."""

    namespace: str
    checkpoint_id: str
    parent_id: str
    size: Size
    metadata: bytes
    writes: list[SentWrite]


class SentCheckpoint(msgspec.Struct, array_like=True):
    """A checkpoint with its values; ``body`` is None if it is too large."""

    parent_id: str
    size: Size
    body: bytes | None
    metadata: bytes
    writes: list[SentWrite]


class Answer(msgspec.Struct):
    """An answer to any request."""

    error: Refusal | None = None
    threads: list[tuple[str, str, str]] = []
    rows: list[SentRow] = []
    checkpoint: SentCheckpoint | None = None


_decode = msgspec.msgpack.Decoder(Answer).decode


class SaverTables:
    """``Tables`` of a saver."""

    kind: Literal["saver"] = "saver"
    # The saver cannot compare its rows without reading them.
    finds_appended = False

    def __init__(self, address: SaverAddress, limits: protocol.ReadLimits, known: KnownSecrets) -> None:
        self.limits = limits
        self.rows = SaverRows(self)
        self._address, self._known = address, known
        self._source: socket.socket | None = None

    def __enter__(self) -> Self:
        self._source = socket.socket(socket.AF_UNIX)
        self._source.settimeout(ANSWER_SECONDS)
        try:
            self._source.connect(self._address.socket)
        except OSError:
            self._close()
            raise protocol.LocationUnreadable("saver.ended") from None
        try:
            self.retried(self.rows.threads)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None

    def abandon(self) -> None:
        """Does nothing: the other process ends by its own clock."""

    def retried(self, read: Callable[[], Result]) -> Result:
        """What ``read`` returns, in which each thread is read once. Raises LocationUnreadable."""
        self.rows.forget()
        return read()

    def mark(self) -> str:
        """A digest of the ids of all checkpoints, and of the number of their writes."""
        return self.retried(self.rows.mark)

    def changed_threads(self, since: Mapping[str, str]) -> None:
        """Returns None: a saver cannot compare digests."""

    def checkpoint(
        self, key: CheckpointKey, max_bytes: int, decoder: Decoder | None = None
    ) -> StoredCheckpoint:
        """A checkpoint with its values. Raises Unreadable."""
        found = self.rows.stored(key)
        if found is None:
            raise protocol.Unavailable("store.row_vanished")
        if found.body is None or found.size > max_bytes:
            raise protocol.too_large(found.size, self.limits)
        values = (decoder or Decoder(self.limits)).value("msgpack", found.body)
        return StoredCheckpoint(found.parent_id or None, found.size, values, found.metadata)

    def ask(self, *request: str | int) -> Answer:
        """The answer of the other process. Raises LocationUnreadable."""
        assert self._source is not None, "It is open within retried."
        frame = msgspec.msgpack.encode(request)
        ending = time.monotonic() + ANSWER_SECONDS
        try:
            self._source.sendall(len(frame).to_bytes(4, "big") + frame)
            size = int.from_bytes(self._received(4, ending), "big")
            if size > max(MAX_LISTED_BYTES, 2 * self.limits.max_bytes):
                raise protocol.LocationLimitExceeded("saver.answer_too_large")
            answer = _decode(self._received(size, ending))
        except TimeoutError:
            raise protocol.LocationUnreadable("saver.timed_out", most=ANSWER_SECONDS) from None
        except (OSError, EOFError):
            raise protocol.LocationUnreadable("saver.ended") from None
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            raise protocol.LocationUnreadable("saver.malformed") from None
        if answer.error is not None:
            raise self._unreadable(answer.error)
        return answer

    def _received(self, size: int, ending: float) -> bytes:
        """The next bytes, until a monotonic time in seconds. Raises OSError or EOFError."""
        assert self._source is not None, "It is open within retried."
        found = bytearray()
        while len(found) < size:
            self._source.settimeout(max(0.001, ending - time.monotonic()))
            if not (data := self._source.recv(min(size - len(found), CHUNK_BYTES))):
                raise EOFError
            found += data
        return bytes(found)

    def _unreadable(self, refusal: Refusal) -> protocol.LocationUnreadable:
        if refusal.code not in CATALOG:
            return protocol.LocationUnreadable("saver.malformed")
        values = {
            # Redacted before it is cut: a part of a key is not recognised.
            name: redact_text(value, self._known)[:500] if isinstance(value, str) else value
            for name, value in refusal.values.items()
        }
        return protocol.LocationUnreadable(refusal.code, **values)


class SaverRows:
    """The implementation of ``Rows`` for a saver."""

    has_last_only = False

    def __init__(self, tables: SaverTables) -> None:
        self._tables = tables
        self._all: dict[str, tuple[str, str]] | None = None
        self._thread: tuple[str, Mapping[Key, SentRow]] = ("", {})
        self._checkpoint: tuple[CheckpointKey, SentCheckpoint | None] | None = None

    def forget(self) -> None:
        """Ask for everything again."""
        self._all, self._thread, self._checkpoint = None, ("", {}), None

    def _threads(self) -> dict[str, tuple[str, str]]:
        if self._all is None:
            sent = self._tables.ask("threads").threads
            self._all = {thread: (head, mark) for thread, head, mark in sent}
        return self._all

    def _of(self, thread: str) -> Mapping[Key, SentRow]:
        """The newest rows of a thread, by namespace and id."""
        if self._thread[0] != thread:
            sent = self._tables.ask("thread", thread).rows
            newest = sorted(sent, key=lambda row: row.checkpoint_id, reverse=True)[:MAX_ROWS]
            rows = {
                (row.namespace, row.checkpoint_id): row
                for row in newest
                if row.checkpoint_id and len(row.namespace) + len(row.checkpoint_id) <= 10 * MAX_ID_LENGTH
            }
            self._thread = thread, rows
        return self._thread[1]

    def _outer_ids(self, thread: str) -> list[str]:
        """The ids of the checkpoints of the thread's graph, without its subgraphs, the newest first."""
        return sorted((own_id for namespace, own_id in self._of(thread) if not namespace), reverse=True)

    def stored(self, key: CheckpointKey) -> SentCheckpoint | None:
        """A checkpoint with its values; None if it does not exist."""
        if self._checkpoint is None or self._checkpoint[0] != key:
            answer = self._tables.ask("checkpoint", *key, self._tables.limits.max_bytes)
            self._checkpoint = key, answer.checkpoint
        return self._checkpoint[1]

    def mark(self) -> str:
        return hashlib.sha256(repr(sorted(self._threads().items())).encode()).hexdigest()[:32]

    def threads(self) -> Iterable[ThreadRow]:
        return [
            ThreadRow(
                thread if len(thread) <= MAX_ID_BYTES else "",
                "text",
                head if len(head) <= MAX_ID_BYTES else "",
            )
            for thread, (head, _mark) in self._threads().items()
        ]

    def has_thread(self, thread: str) -> bool:
        return thread in self._threads()

    def ends(self, thread: str) -> Ends:
        ids = self._outer_ids(thread)
        if not ids:
            return Ends("", "", 0, 0)
        return Ends(ids[0], ids[-1], len(ids), len({one[19:23] for one in ids}))

    def head_writes(self, thread: str, head: str) -> Iterable[tuple[str, int]]:
        row = self._of(thread).get(("", head))
        return [(write.task_id, write.index) for write in row.writes[:1000]] if row else []

    def parents(self, thread: str) -> Iterable[tuple[str, str]]:
        rows = self._of(thread)
        return [(one, rows["", one].parent_id) for one in self._outer_ids(thread)]

    def namespaces(self, thread: str) -> Iterable[str]:
        return sorted({namespace for namespace, _own_id in self._of(thread) if namespace})

    def checkpoints(self, thread: str, keys: Sequence[Key] | None = None) -> Iterable[CheckpointRow]:
        for row in self._chosen(thread, keys):
            mark = f"{row.size}:{len(row.metadata)}"
            metadata = row.metadata if len(row.metadata) <= MAX_METADATA_BYTES else None
            yield CheckpointRow(
                row.namespace, row.checkpoint_id, row.parent_id or None, row.size, mark, metadata
            )

    def _chosen(self, thread: str, keys: Sequence[Key] | None) -> list[SentRow]:
        rows = self._of(thread)
        return list(rows.values()) if keys is None else [rows[key] for key in keys if key in rows]

    def tasks(
        self, thread: str, keys: Sequence[Key] | None = None
    ) -> Iterable[tuple[str, str, str, str, int]]:
        found = [
            (row.namespace, row.checkpoint_id, write.task_id, "", write.index)
            for row in self._chosen(thread, keys)
            for write in row.writes
        ]
        return sorted(found)

    def naming_writes(self, thread: str) -> Iterable[WriteRow]:
        writes = (write for row in self._of(thread).values() for write in row.writes)
        named = (one for one in writes if one.index == -3 or one.channel.startswith("join:"))
        return [_write_row(one) for one in named if one.size <= MAX_NAMING_BYTES][:MAX_ROWS]

    def digest(self, thread: str, last: str, heads: Sequence[str]) -> str:
        """Returns an empty text: each listing is complete."""
        return ""

    def keys_after(self, thread: str, last: str, limit: int | None = None) -> list[Key]:
        return sorted(key for key in self._of(thread) if key[1] > last)[:limit]

    def first_id(self, thread: str, namespace: str) -> str:
        return min((own_id for one, own_id in self._of(thread) if one == namespace), default="")

    def with_id(self, checkpoint_id: str) -> list[CheckpointKey]:
        return [
            CheckpointKey(thread, *key)
            for thread in self._threads()
            for key in self._of(thread)
            if key[1] == checkpoint_id
        ]

    def inner_checkpoints(self, thread: str) -> Iterable[tuple[str, str, bytes | None]]:
        rows = sorted(self._of(thread).values(), key=lambda row: row.checkpoint_id)
        return [(row.namespace, row.checkpoint_id, row.metadata) for row in rows if row.namespace]

    def parent_of(self, key: CheckpointKey) -> str:
        row = self._of(key.thread).get(key[1:])
        return row.parent_id if row else ""

    def size_of(self, key: CheckpointKey) -> int | None:
        if not key.thread or key.thread not in self._threads():
            return None
        if self._thread[0] != key.thread:
            return found.size if (found := self.stored(key)) else None
        row = self._thread[1].get(key[1:])
        return row.size if row else None

    def writes(self, key: CheckpointKey, budget: int | None = None) -> Iterable[WriteRow]:
        most = UNLIMITED if budget is None else max(budget, 0)
        found = self.stored(key)
        writes = sorted(found.writes, key=lambda one: (one.task_id, one.index)) if found else []
        for one in writes[: None if budget is None else MAX_WRITES]:
            yield _write_row(one if one.size <= most else msgspec.structs.replace(one, value=None))


def _write_row(sent: SentWrite) -> WriteRow:
    return WriteRow(sent.task_id, "", sent.index, sent.channel, "msgpack", sent.size, sent.value)

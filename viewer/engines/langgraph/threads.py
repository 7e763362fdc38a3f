"""LangGraph's SQLite tables: threads first, then the rows of one thread, and bodies only one by one.

Imported only in a reader process, since it opens SQLite files.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import apsw
import msgspec

from viewer.engines.langgraph import identifiers
from viewer.engines.langgraph.decoding import decoded_value, opaque
from viewer.engines.langgraph.rows import ENGINE, Indexer, Row, metadata_of, status_of
from viewer.engines.langgraph.super_steps import Attempt, mapping
from viewer.messages.message import UserMessage
from viewer.redaction.known_secrets import NONE_KNOWN, KnownSecrets
from viewer.stores.errors import (
    LocationRefused,
    LocationUnreadable,
    Refused,
    Unavailable,
    Unreadable,
)
from viewer.stores.protocol import (
    Entry,
    IndexedRun,
    Limits,
    RawCheckpoint,
    ReadProblem,
    RecordedIds,
    RunIndex,
    RunList,
    Snapshot,
    StoreFormat,
)
from viewer.stores.readonly_sqlite import DatabaseFile
from viewer.stores.snapshots import too_large
from viewer.stores.sqlite_errors import row_error
from viewer.stores.sqlite_file import SqliteFile, short_text, text_of

_CHECKPOINT_COLUMNS = frozenset(
    {"thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "type", "checkpoint", "metadata"}
)
_WRITE_COLUMNS = frozenset(
    {"thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel", "type", "value"}
)
# Bytes of bodies that one indexing of a thread decodes, for what only they say.
MAX_INDEXED_BYTES = 32 * 1024 * 1024
MAX_METADATA_BYTES = 1024 * 1024
# Rows of one thread that are indexed: the newest.
MAX_ROWS = 50_000
MAX_WRITES = 10_000
# Each step is one search in the primary key, however many checkpoints a thread has.
_THREADS = """
    WITH RECURSIVE thread(id) AS (
        SELECT min(thread_id) FROM checkpoints
        UNION ALL
        SELECT (SELECT min(thread_id) FROM checkpoints WHERE thread_id > thread.id) FROM thread
        WHERE thread.id IS NOT NULL
    )
    SELECT CAST(id AS BLOB), typeof(id), (
        SELECT CAST(max(checkpoint_id) AS BLOB) FROM checkpoints
        WHERE thread_id = thread.id AND checkpoint_ns = ''
    ) FROM thread WHERE id IS NOT NULL
"""
# The same step twice means that two checkpoints follow the same one.
_FORKED = """
    SELECT count(*), count(DISTINCT substr(checkpoint_id, 20, 4)) FROM checkpoints
    WHERE thread_id = ? AND checkpoint_ns = ''
"""
_HEAD_ATTEMPTS = """
    SELECT CAST(task_id AS BLOB), idx FROM writes
    WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id = ? LIMIT 1000
"""


class LangGraphStore(SqliteFile):
    """A database that a ``SqliteSaver`` or ``AsyncSqliteSaver`` writes."""

    kind: Literal["sqlite"] = "sqlite"
    engine = ENGINE

    def __init__(
        self,
        file: Path | DatabaseFile,
        limits: Limits,
        formats: Sequence[StoreFormat],
        known: KnownSecrets = NONE_KNOWN,
    ) -> None:
        super().__init__(file, limits)
        self.formats = formats
        self.known = known
        self._write_columns: frozenset[str] = frozenset()

    def read_schema(self) -> None:
        """Check the columns of both tables. Raises LocationUnreadable."""
        columns, _rowid = self.plain_columns("checkpoints")
        if not columns >= _CHECKPOINT_COLUMNS:
            raise LocationUnreadable("langgraph.columns_missing", table="checkpoints")
        self._write_columns, _rowid = self.plain_columns("writes")
        if not self._write_columns >= _WRITE_COLUMNS:
            raise LocationUnreadable("langgraph.columns_missing", table="writes")

    def runs(self, most: int | None = None) -> RunList:
        """Every thread with its newest checkpoint, newest first, or the newest. Raises LocationUnreadable."""
        found: list[tuple[str, str]] = []
        problems: list[ReadProblem] = []
        for number, (thread, kind, head) in enumerate(self.retried(lambda: self.query(_THREADS))):
            name, head_id = text_of(thread), text_of(head)
            if kind != "text" or not name.isprintable() or not name:
                key = f"thread {number + 1}"
                problems.append(ReadProblem(key, UserMessage("langgraph.thread_unreadable"), "broken", kind))
            elif head_id:
                found.append((head_id, name))
        # The ids of checkpoints begin with their time.
        found.sort(reverse=True)
        return RunList([self._listed(name, head) for head, name in found[:most]], problems)

    def _listed(self, thread: str, head: str) -> IndexedRun:
        shown = identifiers.shown_id(thread, self.known)
        return IndexedRun(
            key=identifiers.run_key(shown, ""),
            head=identifiers.shown_id(head, self.known)[: identifiers.MAX_ID_LENGTH],
            last_at=identifiers.created_at(head),
        )

    def details(self, keys: Sequence[str]) -> list[IndexedRun]:
        """How many checkpoints each of these threads has, its status, and whether it was forked."""
        return self.retried(lambda: [run for key in keys if (run := self._details(key)) is not None])

    def _details(self, key: str) -> IndexedRun | None:
        thread = self._thread(key)
        if thread is None:
            return None
        head_rows = self.query(
            "SELECT CAST(max(checkpoint_id) AS BLOB) FROM checkpoints "
            "WHERE thread_id = ? AND checkpoint_ns = ''",
            thread,
        )
        head = text_of(head_rows[0][0])
        count, steps = self.query(_FORKED, thread)[0]
        attempts = _grouped(
            (text_of(task), "", index) for task, index in self.query(_HEAD_ATTEMPTS, thread, head)
        )
        listed = self._listed(thread, head)
        return replace(listed, status=status_of(attempts), is_forked=count > steps, count=count)

    def index(self, key: str) -> RunIndex:
        """The runs and checkpoints of a thread, without bodies. Raises LocationUnreadable."""
        return self.retried(lambda: self._index(key))

    def _index(self, key: str) -> RunIndex:
        thread = self._thread(key)
        if thread is None:
            return RunIndex([], [])
        rows = self._rows(thread)
        indexer = Indexer(thread, self.known, _Bodies(self, thread))
        return RunIndex(indexer.runs(rows), indexer.snapshots(rows))

    def _thread(self, key: str) -> str | None:
        """The real id of the thread whose run has this key."""
        if self.query("SELECT 1 FROM checkpoints WHERE thread_id = ? LIMIT 1", key):
            return key
        for thread, kind, _head in self.query(_THREADS):
            name = text_of(thread)
            if kind == "text" and identifiers.run_key(identifiers.shown_id(name, self.known), "") == key:
                return name
        return None

    def _rows(self, thread: str) -> list[Row]:
        """The newest rows of a thread by namespace and id, with their tasks, without bodies."""
        rows: list[Row] = []
        for namespace, checkpoint_id, parent_id, size, metadata in self.query(
            f"""
            SELECT CAST(checkpoint_ns AS BLOB), CAST(checkpoint_id AS BLOB),
                {short_text("parent_checkpoint_id", _CHECKPOINT_COLUMNS)}, octet_length(checkpoint),
                CASE WHEN octet_length(metadata) <= {MAX_METADATA_BYTES} THEN CAST(metadata AS BLOB) END
            FROM checkpoints WHERE thread_id = ? ORDER BY checkpoint_id DESC LIMIT {MAX_ROWS}
            """,  # noqa: S608
            thread,
        ):
            own_id = text_of(checkpoint_id)
            if own_id and own_id.isprintable() and len(own_id) <= identifiers.MAX_ID_LENGTH:
                mark = f"{size}:{len(metadata or b'')}"
                parent = text_of(parent_id) or None
                rows.append(Row(text_of(namespace), own_id, parent, size or 0, metadata_of(metadata), mark))
        attempts = self._attempts(thread)
        for row in rows:
            row.attempts = attempts.get((row.namespace, row.checkpoint_id), [])
        return sorted(rows, key=lambda row: (row.namespace, row.checkpoint_id))

    def _attempts(self, thread: str) -> Mapping[tuple[str, str], list[Attempt]]:
        """The tasks of each checkpoint of a thread, by namespace and id."""
        found: dict[tuple[str, str], list[tuple[str, str, Any]]] = defaultdict(list)
        path = short_text("task_path", self._write_columns)
        for namespace, checkpoint_id, task, index, task_path in self.query(
            f"""
            SELECT CAST(checkpoint_ns AS BLOB), CAST(checkpoint_id AS BLOB),
                CAST(task_id AS BLOB), idx, {path}
            FROM writes WHERE thread_id = ? ORDER BY checkpoint_ns, checkpoint_id, task_id, idx
            """,  # noqa: S608
            thread,
        ):
            at = text_of(namespace), text_of(checkpoint_id)
            found[at].append((text_of(task), text_of(task_path), index))
        return {at: _grouped(writes) for at, writes in found.items()}

    def entries(self) -> Iterator[Entry | ReadProblem]:
        """Every checkpoint of every thread. Raises LocationUnreadable."""
        for run in self.runs().runs:
            yield from (entry_of(snapshot) for snapshot in self.index(run.key).snapshots)

    def entry(self, key: str) -> Entry | ReadProblem | None:
        """The checkpoint with this key; None if there is none. Raises LocationUnreadable."""
        found = self.retried(lambda: self._found(key))
        if found is None:
            return None
        size = self.retried(lambda: self._body(*found))[1]
        return Entry(key, f"{size}", size)

    def _found(self, key: str) -> tuple[str, str, str] | None:
        """The thread, namespace and id of the checkpoint with this key, which may be redacted."""
        for ids in identifiers.possible_ids(key):
            if self._body(*ids)[0] is not None:
                return ids
        thread = next((ids[0] for ids in identifiers.possible_ids(key) if self._thread(ids[0])), None)
        real = self._thread(thread) if thread else None
        if real is None:
            return None
        indexer = Indexer(real, self.known, lambda row: {})
        rows = self._rows(real)
        keys = {one.key: row for one, row in zip(indexer.snapshots(rows), rows, strict=True)}
        row = keys.get(key)
        return (real, row.namespace, row.checkpoint_id) if row else None

    def _body(self, thread: str, namespace: str, checkpoint_id: str) -> tuple[str | None, int]:
        rows = self.query(
            "SELECT typeof(checkpoint), octet_length(checkpoint) FROM checkpoints "
            "WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
            *(thread, namespace, checkpoint_id),
        )
        return (rows[0][0], rows[0][1] or 0) if rows else (None, 0)

    def read(self, entry: Entry) -> RawCheckpoint:
        """A checkpoint with its metadata and writes, as JSON. Raises Unreadable."""
        try:
            found = self.retried(lambda: self._found(entry.real_key))
            if found is None:
                raise Unavailable("store.row_vanished")
            document = self.retried(lambda: self._document(*found))
        except LocationRefused as error:
            raise Refused(error.message) from None
        except LocationUnreadable as error:
            raise Unavailable(error.message) from None
        ids = RecordedIds(document["checkpoint_id"], document["parent_checkpoint_id"], "")
        return RawCheckpoint(entry, msgspec.json.encode(document), lambda store_format: ids)

    def _document(self, thread: str, namespace: str, checkpoint_id: str) -> dict[str, Any]:
        parent_id, kind, size, body, metadata = self._checkpoint(thread, namespace, checkpoint_id)
        writes = self._writes(thread, namespace, checkpoint_id, self.limits.max_bytes - size)
        checkpoint = decoded_value(kind, body, self.limits.max_depth)
        return {
            "thread_id": thread,
            "checkpoint_ns": namespace,
            "checkpoint_id": checkpoint_id,
            "parent_checkpoint_id": parent_id,
            "checkpoint": checkpoint,
            "metadata": self._metadata(metadata),
            "writes": writes,
        }

    def _checkpoint(
        self, thread: str, namespace: str, checkpoint_id: str
    ) -> tuple[str | None, str, int, bytes | None, bytes | None]:
        """The parent, encoding, size, bytes and metadata of a checkpoint. Raises Unreadable."""
        kind = short_text("type", _CHECKPOINT_COLUMNS)
        parent = short_text("parent_checkpoint_id", _CHECKPOINT_COLUMNS)
        bytes_of = "CASE WHEN typeof({0}) IN ('blob', 'text') THEN CAST({0} AS BLOB) END".format
        try:
            rows = self.query(
                f"SELECT {parent}, {kind}, octet_length(checkpoint), {bytes_of('checkpoint')}, "  # noqa: S608
                f"{bytes_of('metadata')} FROM checkpoints "
                "WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
                *(thread, namespace, checkpoint_id),
            )
        except (apsw.Error, MemoryError) as error:
            raise row_error(error, self.limits) from None
        if not rows:
            raise Unavailable("store.row_vanished")
        parent_id, encoding, size, body, metadata = rows[0]
        if (size or 0) > self.limits.max_bytes:
            raise too_large(size, self.limits)
        return text_of(parent_id) or None, text_of(encoding), size or 0, body, metadata

    def _metadata(self, data: bytes | None) -> Any:
        """The metadata as plain values; what it is instead if it is no JSON."""
        try:
            return decoded_value("json", data, self.limits.max_depth)
        except Unreadable:
            return opaque("metadata", len(data or b""))

    def _writes(self, thread: str, namespace: str, checkpoint_id: str, budget: int) -> list[dict[str, Any]]:
        """The writes of a checkpoint's tasks, by task and index. Values beyond the budget stay opaque."""
        path = short_text("task_path", self._write_columns)
        found: list[dict[str, Any]] = []
        rows = self.database.run(
            f"""
            SELECT CAST(task_id AS BLOB), {path}, idx, CAST(channel AS BLOB),
                {short_text("type", self._write_columns)}, octet_length(value),
                CASE WHEN octet_length(value) <= {max(budget, 0)} AND typeof(value) IN ('blob', 'text')
                    THEN CAST(value AS BLOB) END
            FROM writes WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?
            ORDER BY task_id, idx LIMIT {MAX_WRITES}
            """,  # noqa: S608
            *(thread, namespace, checkpoint_id),
        )
        for task, task_path, index, channel, kind, size, value in rows:
            budget -= size or 0
            found.append(
                {
                    "task_id": text_of(task),
                    "task_path": text_of(task_path),
                    "index": index if isinstance(index, int) else 0,
                    "channel": text_of(channel),
                    "type": text_of(kind),
                    "value": self._value(text_of(kind), value if budget >= 0 else None, size or 0),
                }
            )
        return found

    def _value(self, kind: str, value: bytes | None, size: int) -> Any:
        """A decoded write; what it is instead if it cannot be decoded."""
        if value is None and size:
            return opaque("too large", size)
        try:
            return decoded_value(kind or None, value, self.limits.max_depth)
        except Unreadable:
            return opaque(kind, size)

    def checkpoint_values(self, thread: str, row: Row) -> Mapping[str, Any]:
        """The decoded checkpoint of a row, unredacted; empty if it cannot be decoded."""
        try:
            _parent, kind, _size, body, _metadata = self._checkpoint(thread, row.namespace, row.checkpoint_id)
            return mapping(decoded_value(kind, body, self.limits.max_depth))
        except Unreadable:
            return {}


class _Bodies:
    """Decodes the bodies of a thread for its index, up to a number of bytes."""

    def __init__(self, store: LangGraphStore, thread: str) -> None:
        self._store, self._thread = store, thread
        self._left = MAX_INDEXED_BYTES
        self._last: tuple[Row, Mapping[str, Any]] | None = None

    def __call__(self, row: Row) -> Mapping[str, Any]:
        if self._last is not None and self._last[0] is row:
            return self._last[1]
        self._left -= row.size
        values = self._store.checkpoint_values(self._thread, row) if self._left >= 0 else {}
        self._last = (row, values)
        return values


def entry_of(snapshot: Snapshot) -> Entry:
    """The entry by which the body of an indexed checkpoint is read."""
    return Entry(snapshot.key, snapshot.fingerprint, snapshot.size)


def _grouped(writes: Iterator[tuple[str, str, Any]] | Sequence[tuple[str, str, Any]]) -> list[Attempt]:
    """The tasks of one checkpoint."""
    indexes: dict[str, set[int]] = defaultdict(set)
    paths: dict[str, str] = {}
    for task, path, index in writes:
        indexes[task].add(index if isinstance(index, int) else 0)
        paths[task] = paths.get(task) or path
    return [Attempt(task, paths[task], frozenset(found)) for task, found in indexes.items()]

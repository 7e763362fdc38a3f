"""LangGraph's tables in a SQLite file, as ``SqliteSaver`` and ``AsyncSqliteSaver`` write them."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

import apsw

from viewer.engines.langgraph.decoding import Decoder
from viewer.engines.langgraph.tables.protocol import (
    CHECKPOINT_COLUMNS,
    MAX_APPENDED,
    MAX_METADATA_BYTES,
    MAX_NAMING_BYTES,
    MAX_ROWS,
    MAX_WRITES,
    WRITE_COLUMNS,
    CheckpointKey,
    CheckpointRow,
    Ends,
    Result,
    StoredCheckpoint,
    ThreadRow,
    WriteRow,
)
from viewer.stores.errors import LocationUnreadable, Unavailable, too_large
from viewer.stores.row_digest import MAX_SHORT_BYTES
from viewer.stores.sqlite_file import row_error
from viewer.stores.sqlite_store import SqliteFile, short_text, text_of

# Finds what was appended to a thread in a SQLite file, without reading its other rows again.


# The most bytes of ids and namespaces that are compared.
MAX_COMPARED_BYTES = 16 * 1024 * 1024
_BYTES = """
    SELECT total(octet_length(checkpoint_ns) + octet_length(checkpoint_id)
        + coalesce(octet_length(parent_checkpoint_id), 0))
    FROM checkpoints WHERE thread_id = ? AND checkpoint_id <= ?
"""
# A row that is replaced gets another rowid.
_APPENDED_CHECKPOINTS = """
    SELECT CAST(group_concat(line, char(10)) AS BLOB) FROM (
        SELECT checkpoint_ns || ' ' || checkpoint_id || ' ' || coalesce(parent_checkpoint_id, '') || ' '
            || coalesce(octet_length(checkpoint), -1) || ' ' || coalesce(octet_length(metadata), -1)
            || ' ' || {rowid} AS line
        FROM checkpoints WHERE thread_id = ? AND checkpoint_id <= ? ORDER BY checkpoint_ns, checkpoint_id
    )
"""
_APPENDED_WRITES = """
    SELECT count(*), total({rowid}), total(idx) FROM writes
    WHERE thread_id = ? AND checkpoint_id <= ?
        AND checkpoint_id NOT IN (SELECT value FROM json_each(?))
"""
_AFTER = f"""
    SELECT CAST(checkpoint_ns AS BLOB), CAST(checkpoint_id AS BLOB) FROM checkpoints
    WHERE thread_id = ? AND checkpoint_id > ? ORDER BY checkpoint_ns, checkpoint_id
    LIMIT {MAX_APPENDED + 1}
"""  # noqa: S608
_FIRST = """
    SELECT CAST(min(checkpoint_id) AS BLOB) FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ?
"""
_WITH_KEYS = """
    AND (checkpoint_ns, checkpoint_id) IN (
        SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?)
    )
"""


class _Tables(Protocol):
    """What is used of ``SqliteTables``."""

    @property
    def rowids(self) -> tuple[str, str]: ...

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]: ...

    def some_checkpoints(self, thread: str, condition: str, *values: str) -> Iterable[CheckpointRow]: ...

    def some_tasks(
        self, thread: str, condition: str, *values: str
    ) -> Iterable[tuple[str, str, str, str, int]]: ...


class SqliteAppendedRows:
    """The implementation of ``AppendedRows`` for the tables of a file."""

    def __init__(self, tables: _Tables) -> None:
        self._tables = tables

    def digest(self, thread: str, last: str, heads: Sequence[str]) -> str:
        """As in ``AppendedRows``."""
        ((size,),) = self._tables.query(_BYTES, thread, last)
        if size > MAX_COMPARED_BYTES:
            return ""
        of_checkpoints, of_writes = self._tables.rowids
        ((lines,),) = self._tables.query(_APPENDED_CHECKPOINTS.format(rowid=of_checkpoints), thread, last)
        writes = self._tables.query(_APPENDED_WRITES.format(rowid=of_writes), thread, last, json.dumps(heads))
        return hashlib.sha256(repr(writes).encode() + (lines or b"")).hexdigest()

    def ids_after(self, thread: str, last: str) -> list[tuple[str, str]]:
        """As in ``AppendedRows``."""
        found = self._tables.query(_AFTER, thread, last)
        return [(text_of(namespace), text_of(own_id)) for namespace, own_id in found]

    def checkpoints(self, thread: str, keys: Sequence[tuple[str, str]]) -> Iterable[CheckpointRow]:
        """As in ``AppendedRows``."""
        return self._tables.some_checkpoints(thread, _WITH_KEYS, json.dumps(keys))

    def tasks(self, thread: str, keys: Sequence[tuple[str, str]]) -> Iterable[tuple[str, str, str, str, int]]:
        """As in ``AppendedRows``."""
        return self._tables.some_tasks(thread, _WITH_KEYS, json.dumps(keys))

    def first_id(self, thread: str, namespace: str) -> str:
        """As in ``AppendedRows``."""
        return text_of(self._tables.query(_FIRST, thread, namespace)[0][0])


# LangGraph's tables in a SQLite file, as ``SqliteSaver`` and ``AsyncSqliteSaver`` write them.
#
# Imported only in a reader process, since it opens SQLite files.


_CHECKPOINT_COLUMNS = CHECKPOINT_COLUMNS | {"checkpoint_id", "parent_checkpoint_id"}
_WRITE_COLUMNS = WRITE_COLUMNS | {"value"}
# The start of a text. Longer ones are no keys that the engine writes.
_SHORT = f"substr(CAST({{0}} AS BLOB), 1, {MAX_SHORT_BYTES})"
# Any other value may be a text that is not UTF-8, which would end the query.
_INDEX = "CASE typeof(idx) WHEN 'integer' THEN idx END"
_NAMESPACES = f"""
    SELECT DISTINCT CAST(checkpoint_ns AS BLOB) FROM checkpoints
    WHERE thread_id = ? AND checkpoint_ns > '' AND octet_length(checkpoint_ns) <= {MAX_SHORT_BYTES}
    LIMIT {MAX_ROWS}
"""  # noqa: S608
_WITH_IDS = "AND checkpoint_ns = '' AND checkpoint_id IN (SELECT value FROM json_each(?))"
# A text that is not UTF-8 is bound as bytes.
_ONE = "thread_id = CAST(? AS TEXT) AND checkpoint_ns = CAST(? AS TEXT) AND checkpoint_id = CAST(? AS TEXT)"
# Each step is one search in the primary key, however many checkpoints a thread has.
_THREADS = f"""
    WITH RECURSIVE thread(id) AS (
        SELECT min(thread_id) FROM checkpoints
        UNION ALL
        SELECT (SELECT min(thread_id) FROM checkpoints WHERE thread_id > thread.id) FROM thread
        WHERE thread.id IS NOT NULL
    )
    SELECT CASE WHEN octet_length(id) <= {MAX_SHORT_BYTES} THEN CAST(id AS BLOB) END, typeof(id), (
        SELECT CAST(checkpoint_id AS BLOB) FROM checkpoints
        WHERE thread_id = thread.id AND checkpoint_ns = ''
            AND octet_length(checkpoint_id) BETWEEN 1 AND {MAX_SHORT_BYTES}
        ORDER BY checkpoint_id DESC LIMIT 1
    ) FROM thread WHERE id IS NOT NULL
"""  # noqa: S608
# An id contains its step. Fewer steps than checkpoints mean that a checkpoint has several children.
_HEAD = f"""
    SELECT CAST(max(checkpoint_id) AS BLOB), CAST(min(checkpoint_id) AS BLOB), count(*),
        count(DISTINCT substr(checkpoint_id, 20, 4))
    FROM checkpoints
    WHERE thread_id = ? AND checkpoint_ns = '' AND octet_length(checkpoint_id) BETWEEN 1 AND {MAX_SHORT_BYTES}
"""  # noqa: S608
_HEAD_WRITES = f"""
    SELECT {_SHORT.format("task_id")}, {_INDEX} FROM writes
    WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id = ? LIMIT 1000
"""  # noqa: S608


class SqliteTables(SqliteFile):
    """``Tables`` of a file: ``checkpoints`` and ``writes``."""

    kind: Literal["sqlite"] = "sqlite"
    _write_columns: frozenset[str] = frozenset()
    # The names by which queries read the rowids of both tables.
    rowids = ("rowid", "rowid")

    def read_schema(self) -> None:
        """Check the columns of both tables. Raises LocationUnreadable."""
        columns, of_checkpoints = self.plain_columns("checkpoints")
        if not columns >= _CHECKPOINT_COLUMNS:
            raise LocationUnreadable("langgraph.columns_missing", table="checkpoints")
        self._write_columns, of_writes = self.plain_columns("writes")
        self.rowids = (of_checkpoints, of_writes)
        if not self._write_columns >= _WRITE_COLUMNS:
            raise LocationUnreadable("langgraph.columns_missing", table="writes")

    def abandon(self) -> None:
        """Does nothing: no other program reads the file for this one."""

    def mark(self) -> str:
        """Returns an empty text: the size and times of a file show that it has changed."""
        return ""

    def threads(self) -> Iterable[ThreadRow]:
        for thread, kind, head in self.query(_THREADS):
            yield ThreadRow(text_of(thread) if kind == "text" else "", kind, text_of(head))

    def changed_threads(self, known: Mapping[str, str]) -> None:
        """Returns None: a file that has not changed is not read at all."""

    def has_thread(self, thread: str) -> bool:
        return bool(self.query("SELECT 1 FROM checkpoints WHERE thread_id = ? LIMIT 1", thread))

    def ends(self, thread: str) -> Ends:
        newest, oldest, count, steps = self.query(_HEAD, thread)[0]
        return Ends(text_of(newest), text_of(oldest), count, steps)

    def head_writes(self, thread: str, head: str) -> Iterable[tuple[str, int]]:
        for task, index in self.query(_HEAD_WRITES, thread, head):
            yield text_of(task), _number(index)

    def parents(self, thread: str) -> Iterable[tuple[str, str]]:
        for own_id, parent_id in self.query(
            f"""
            SELECT CAST(checkpoint_id AS BLOB), {short_text("parent_checkpoint_id", _CHECKPOINT_COLUMNS)}
            FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ''
                AND octet_length(checkpoint_id) <= {MAX_SHORT_BYTES}
            ORDER BY checkpoint_id DESC LIMIT {MAX_ROWS}
            """,  # noqa: S608
            thread,
        ):
            yield text_of(own_id), text_of(parent_id)

    def namespaces(self, thread: str) -> Iterable[str]:
        return [text_of(namespace) for (namespace,) in self.query(_NAMESPACES, thread)]

    def retried(self, read: Callable[[], Result]) -> Result:
        """What ``read`` returns, from one state of a file in WAL mode. Raises LocationUnreadable."""

        def read_one_state() -> Result:
            with self.database.one_state():
                return read()

        return super().retried(read_one_state)

    @property
    def has_last_only(self) -> bool:
        return False

    @property
    def appended(self) -> SqliteAppendedRows | None:
        """What finds appended rows. None if rows and their digest may be read from different states."""
        return SqliteAppendedRows(self) if self.database.reads_one_state else None

    def checkpoints(self, thread: str, ids: Sequence[str] | None = None) -> Iterable[CheckpointRow]:
        return self.some_checkpoints(thread, "" if ids is None else _WITH_IDS, *_values(ids))

    def some_checkpoints(self, thread: str, condition: str, *values: str) -> Iterable[CheckpointRow]:
        """The newest checkpoints of a thread that meet a condition in SQL."""
        for namespace, checkpoint_id, parent_id, size, metadata in self.query(
            f"""
            SELECT CAST(checkpoint_ns AS BLOB), CAST(checkpoint_id AS BLOB),
                {short_text("parent_checkpoint_id", _CHECKPOINT_COLUMNS)}, octet_length(checkpoint),
                CASE WHEN octet_length(metadata) <= {MAX_METADATA_BYTES} THEN CAST(metadata AS BLOB) END
            FROM checkpoints WHERE thread_id = ? {condition}
                AND octet_length(checkpoint_ns) <= {MAX_SHORT_BYTES}
                AND octet_length(checkpoint_id) <= {MAX_SHORT_BYTES}
            ORDER BY checkpoint_id DESC LIMIT {MAX_ROWS}
            """,  # noqa: S608
            thread,
            *values,
        ):
            mark, parent = f"{size}:{len(metadata or b'')}", text_of(parent_id) or None
            own_id = text_of(checkpoint_id)
            yield CheckpointRow(text_of(namespace), own_id, parent, size or 0, mark, metadata)

    def tasks(
        self, thread: str, ids: Sequence[str] | None = None
    ) -> Iterable[tuple[str, str, str, str, int]]:
        return self.some_tasks(thread, "" if ids is None else _WITH_IDS, *_values(ids))

    def some_tasks(
        self, thread: str, condition: str, *values: str
    ) -> Iterable[tuple[str, str, str, str, int]]:
        """The same of the writes that meet a condition in SQL."""
        path = short_text("task_path", self._write_columns)
        for namespace, checkpoint_id, task, task_path, index in self.query(
            f"""
            SELECT CAST(checkpoint_ns AS BLOB), CAST(checkpoint_id AS BLOB),
                {_SHORT.format("task_id")}, {path}, {_INDEX}
            FROM writes WHERE thread_id = ? {condition}
                AND octet_length(checkpoint_ns) <= {MAX_SHORT_BYTES}
                AND octet_length(checkpoint_id) <= {MAX_SHORT_BYTES}
            ORDER BY checkpoint_ns, checkpoint_id, task_id, idx
            """,  # noqa: S608
            thread,
            *values,
        ):
            at = text_of(namespace), text_of(checkpoint_id)
            yield (*at, text_of(task), text_of(task_path), _number(index))

    def naming_writes(self, thread: str) -> Iterable[WriteRow]:
        """The interrupts, and the writes to channels that join nodes, if tasks have no paths."""
        if "task_path" in self._write_columns:
            return
        for task, index, channel, kind, value in self.query(
            f"""
            SELECT {_SHORT.format("task_id")}, {_INDEX}, {_SHORT.format("channel")},
                {short_text("type", self._write_columns)}, CAST(value AS BLOB)
            FROM writes WHERE thread_id = ? AND octet_length(value) <= {MAX_NAMING_BYTES}
                AND (idx = -3 OR idx >= 0 AND channel GLOB 'join:*') LIMIT {MAX_ROWS}
            """,  # noqa: S608
            thread,
        ):
            own = text_of(task), "", _number(index), text_of(channel), text_of(kind)
            yield WriteRow(*own, len(value or b""), value)

    def size_of(self, key: CheckpointKey) -> int | None:
        rows = self.query(f"SELECT octet_length(checkpoint) FROM checkpoints WHERE {_ONE}", *key)  # noqa: S608
        return (rows[0][0] or 0) if rows else None

    def checkpoint(
        self, key: CheckpointKey, max_bytes: int, decoder: Decoder | None = None
    ) -> StoredCheckpoint:
        """A checkpoint with its values, which are all in one column. Raises Unreadable."""
        kind = short_text("type", _CHECKPOINT_COLUMNS)
        parent = short_text("parent_checkpoint_id", _CHECKPOINT_COLUMNS)
        bytes_of = "CASE WHEN typeof({0}) IN ('blob', 'text') THEN CAST({0} AS BLOB) END".format
        try:
            rows = self.query(
                f"SELECT {parent}, {kind}, octet_length(checkpoint), {bytes_of('checkpoint')}, "  # noqa: S608
                f"{bytes_of('metadata')} FROM checkpoints WHERE {_ONE}",
                *key,
            )
        except (apsw.Error, MemoryError) as error:
            raise row_error(error, self.limits) from None
        if not rows:
            raise Unavailable("store.row_vanished")
        parent_id, encoding, size, body, metadata = rows[0]
        if (size or 0) > max_bytes:
            raise too_large(size, self.limits)
        values = (decoder or Decoder(self.limits)).value(text_of(encoding), body)
        return StoredCheckpoint(text_of(parent_id) or None, size or 0, values, metadata)

    def writes(self, key: CheckpointKey, budget: int) -> Iterable[WriteRow]:
        path = short_text("task_path", self._write_columns)
        for task, task_path, index, channel, kind, size, value in self.database.run(
            f"""
            SELECT {_SHORT.format("task_id")}, {path}, {_INDEX}, {_SHORT.format("channel")},
                {short_text("type", self._write_columns)}, octet_length(value),
                CASE WHEN octet_length(value) <= {max(budget, 0)} AND typeof(value) IN ('blob', 'text')
                    THEN CAST(value AS BLOB) END
            FROM writes WHERE {_ONE} ORDER BY task_id, idx LIMIT {MAX_WRITES}
            """,  # noqa: S608
            *key,
        ):
            own = text_of(task), text_of(task_path), _number(index)
            yield WriteRow(*own, text_of(channel), text_of(kind), size or 0, value)


def _values(ids: Sequence[str] | None) -> list[str]:
    """The value of the statement's parameter for these ids, if any."""
    return [] if ids is None else [json.dumps(ids)]


def _number(index: int | None) -> int:
    """The index of a write; 0 if the column holds anything else."""
    return index or 0

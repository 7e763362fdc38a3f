"""LangGraph's tables in a SQLite file, as ``SqliteSaver`` and ``AsyncSqliteSaver`` write them.

Imported only in a reader process, since it opens SQLite files.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

import apsw

from viewer.engines.langgraph.format.decoding import decoded_value
from viewer.engines.langgraph.tables.protocol import (
    CHECKPOINT_COLUMNS,
    MAX_METADATA_BYTES,
    MAX_NAMING_BYTES,
    MAX_ROWS,
    MAX_WRITES,
    WRITE_COLUMNS,
    CheckpointRow,
    Ends,
    Key,
    StoredCheckpoint,
    ThreadRow,
    WriteRow,
)
from viewer.stores.errors import LocationUnreadable, Unavailable
from viewer.stores.snapshots import too_large
from viewer.stores.sqlite_errors import row_error
from viewer.stores.sqlite_file import SqliteFile, short_text, text_of

_CHECKPOINT_COLUMNS = CHECKPOINT_COLUMNS | {"checkpoint_id", "parent_checkpoint_id"}
_WRITE_COLUMNS = WRITE_COLUMNS | {"value"}
_ONE = "thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
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
# An id contains its step. Fewer steps than checkpoints mean that a checkpoint has several children.
_HEAD = """
    SELECT CAST(max(checkpoint_id) AS BLOB), CAST(min(checkpoint_id) AS BLOB), count(*),
        count(DISTINCT substr(checkpoint_id, 20, 4))
    FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ''
"""
_HEAD_WRITES = """
    SELECT CAST(task_id AS BLOB), idx FROM writes
    WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id = ? LIMIT 1000
"""


class SqliteTables(SqliteFile):
    """The tables ``checkpoints`` and ``writes`` of a file."""

    kind: Literal["sqlite"] = "sqlite"
    _write_columns: frozenset[str] = frozenset()

    def read_schema(self) -> None:
        """Check the columns of both tables. Raises LocationUnreadable."""
        columns, _rowid = self.plain_columns("checkpoints")
        if not columns >= _CHECKPOINT_COLUMNS:
            raise LocationUnreadable("langgraph.columns_missing", table="checkpoints")
        self._write_columns, _rowid = self.plain_columns("writes")
        if not self._write_columns >= _WRITE_COLUMNS:
            raise LocationUnreadable("langgraph.columns_missing", table="writes")

    def mark(self) -> str:
        """Returns an empty text: the size and times of a file show that it has changed."""
        return ""

    def threads(self) -> Iterable[ThreadRow]:
        """Every thread."""
        for thread, kind, head in self.query(_THREADS):
            yield ThreadRow(text_of(thread) if kind == "text" else "", kind, text_of(head))

    def changed_threads(self, known: Mapping[str, str]) -> None:
        """Returns None: a file that has not changed is not read at all."""

    def has_thread(self, thread: str) -> bool:
        """Whether there is a thread with this id."""
        return bool(self.query("SELECT 1 FROM checkpoints WHERE thread_id = ? LIMIT 1", thread))

    def ends(self, thread: str) -> Ends:
        """The newest and oldest checkpoints of a thread, and its numbers of checkpoints and steps."""
        newest, oldest, count, steps = self.query(_HEAD, thread)[0]
        return Ends(text_of(newest), text_of(oldest), count, steps)

    def head_writes(self, thread: str, head: str) -> Iterable[tuple[str, int]]:
        """The task and index of each write of a thread's checkpoint."""
        for task, index in self.query(_HEAD_WRITES, thread, head):
            yield text_of(task), _number(index)

    def checkpoints(self, thread: str) -> Iterable[CheckpointRow]:
        """The newest checkpoints of a thread."""
        for namespace, checkpoint_id, parent_id, size, metadata in self.query(
            f"""
            SELECT CAST(checkpoint_ns AS BLOB), CAST(checkpoint_id AS BLOB),
                {short_text("parent_checkpoint_id", _CHECKPOINT_COLUMNS)}, octet_length(checkpoint),
                CASE WHEN octet_length(metadata) <= {MAX_METADATA_BYTES} THEN CAST(metadata AS BLOB) END
            FROM checkpoints WHERE thread_id = ? ORDER BY checkpoint_id DESC LIMIT {MAX_ROWS}
            """,  # noqa: S608
            thread,
        ):
            mark, parent = f"{size}:{len(metadata or b'')}", text_of(parent_id) or None
            own_id = text_of(checkpoint_id)
            yield CheckpointRow(text_of(namespace), own_id, parent, size or 0, mark, metadata)

    def tasks(self, thread: str) -> Iterable[tuple[str, str, str, str, int]]:
        """The namespace, checkpoint, task, path and index of each write of a thread, in this order."""
        path = short_text("task_path", self._write_columns)
        for namespace, checkpoint_id, task, task_path, index in self.query(
            f"""
            SELECT CAST(checkpoint_ns AS BLOB), CAST(checkpoint_id AS BLOB),
                CAST(task_id AS BLOB), {path}, idx
            FROM writes WHERE thread_id = ? ORDER BY checkpoint_ns, checkpoint_id, task_id, idx
            """,  # noqa: S608
            thread,
        ):
            at = text_of(namespace), text_of(checkpoint_id)
            yield (*at, text_of(task), text_of(task_path), _number(index))

    def naming_writes(self, thread: str) -> Iterable[WriteRow]:
        """The interrupts, and the writes to channels that join nodes, if tasks have no paths."""
        if "task_path" in self._write_columns:
            return
        for task, index, channel, kind, value in self.query(
            f"""
            SELECT CAST(task_id AS BLOB), idx, CAST(channel AS BLOB),
                {short_text("type", self._write_columns)}, CAST(value AS BLOB)
            FROM writes WHERE thread_id = ? AND octet_length(value) <= {MAX_NAMING_BYTES}
                AND (idx = -3 OR idx >= 0 AND channel GLOB 'join:*') LIMIT {MAX_ROWS}
            """,  # noqa: S608
            thread,
        ):
            own = text_of(task), "", _number(index), text_of(channel), text_of(kind)
            yield WriteRow(*own, len(value or b""), value)

    def size_of(self, key: Key) -> int | None:
        """The size of a checkpoint in bytes; None if it does not exist."""
        rows = self.query(f"SELECT octet_length(checkpoint) FROM checkpoints WHERE {_ONE}", *key)  # noqa: S608
        return (rows[0][0] or 0) if rows else None

    def checkpoint(self, key: Key, max_bytes: int) -> StoredCheckpoint:
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
        values = decoded_value(text_of(encoding), body, self.limits.max_depth)
        return StoredCheckpoint(text_of(parent_id) or None, size or 0, values, metadata)

    def writes(self, key: Key, budget: int) -> Iterable[WriteRow]:
        """The writes of a checkpoint's tasks, by task and index. Larger values than the budget are None."""
        path = short_text("task_path", self._write_columns)
        for task, task_path, index, channel, kind, size, value in self.database.run(
            f"""
            SELECT CAST(task_id AS BLOB), {path}, idx, CAST(channel AS BLOB),
                {short_text("type", self._write_columns)}, octet_length(value),
                CASE WHEN octet_length(value) <= {max(budget, 0)} AND typeof(value) IN ('blob', 'text')
                    THEN CAST(value AS BLOB) END
            FROM writes WHERE {_ONE} ORDER BY task_id, idx LIMIT {MAX_WRITES}
            """,  # noqa: S608
            *key,
        ):
            own = text_of(task), text_of(task_path), _number(index)
            yield WriteRow(*own, text_of(channel), text_of(kind), size or 0, value)


def _number(value: object) -> int:
    """A whole number; 0 for anything else that the column may hold."""
    return value if isinstance(value, int) else 0

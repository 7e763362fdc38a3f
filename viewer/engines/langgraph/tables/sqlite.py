"""LangGraph's tables in a SQLite file, as ``SqliteSaver`` and ``AsyncSqliteSaver`` write them.

Texts are read as bytes, since a text that is not UTF-8 would end a query. SQLite before 3.43 has no
``octet_length``: the caller defines it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from . import (
    MAX_ID_BYTES,
    MAX_METADATA_BYTES,
    MAX_NAMING_BYTES,
    MAX_ROWS,
    MAX_WRITES,
    UNLIMITED,
    BodyRow,
    CheckpointKey,
    CheckpointRow,
    Ends,
    Key,
    Query,
    ThreadRow,
    WriteRow,
)

# The most bytes of ids and namespaces that are compared.
MAX_COMPARED_BYTES = 16 * 1024 * 1024
# An expression has no declared type, which may be damaged.
_SHORT = f"""
    CASE WHEN octet_length({{0}}) > {MAX_ID_BYTES} THEN NULL
        WHEN typeof({{0}}) = 'text' THEN CAST({{0}} AS BLOB)
        WHEN typeof({{0}}) = 'blob' THEN NULL ELSE +{{0}} END
""".format
_START = f"substr(CAST({{0}} AS BLOB), 1, {MAX_ID_BYTES})".format
_BYTES = "CASE WHEN typeof({0}) IN ('blob', 'text') THEN CAST({0} AS BLOB) END".format
_INDEX = "CASE typeof(idx) WHEN 'integer' THEN idx END"
_KEY_BYTES = (
    f"octet_length(checkpoint_ns) <= {MAX_ID_BYTES} AND octet_length(checkpoint_id) <= {MAX_ID_BYTES}"
)
# A text that is not UTF-8 is bound as bytes.
_ONE = "thread_id = CAST(? AS TEXT) AND checkpoint_ns = CAST(? AS TEXT) AND checkpoint_id = CAST(? AS TEXT)"
_WITH_KEYS = """
    AND (checkpoint_ns, checkpoint_id) IN (
        SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?)
    )
"""
# Each step is one search in the primary key, however many checkpoints a thread has.
_THREADS = f"""
    WITH RECURSIVE thread(id) AS (
        SELECT min(thread_id) FROM checkpoints
        UNION ALL
        SELECT (SELECT min(thread_id) FROM checkpoints WHERE thread_id > thread.id) FROM thread
        WHERE thread.id IS NOT NULL
    )
    SELECT CASE WHEN octet_length(id) <= {MAX_ID_BYTES} THEN CAST(id AS BLOB) END, typeof(id), (
        SELECT CAST(checkpoint_id AS BLOB) FROM checkpoints
        WHERE thread_id = thread.id AND checkpoint_ns = ''
            AND octet_length(checkpoint_id) BETWEEN 1 AND {MAX_ID_BYTES}
        ORDER BY checkpoint_id DESC LIMIT 1
    ) FROM thread WHERE id IS NOT NULL
"""  # noqa: S608
# An id contains its step. Fewer steps than checkpoints mean that a checkpoint has several children.
_ENDS = f"""
    SELECT CAST(max(checkpoint_id) AS BLOB), CAST(min(checkpoint_id) AS BLOB), count(*),
        count(DISTINCT substr(checkpoint_id, 20, 4))
    FROM checkpoints
    WHERE thread_id = ? AND checkpoint_ns = '' AND octet_length(checkpoint_id) BETWEEN 1 AND {MAX_ID_BYTES}
"""  # noqa: S608
_HEAD_WRITES = f"""
    SELECT {_START("task_id")}, {_INDEX} FROM writes
    WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id = ? LIMIT 1000
"""  # noqa: S608
_PARENTS = f"""
    SELECT CAST(checkpoint_id AS BLOB), {_SHORT("parent_checkpoint_id")}
    FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ''
        AND octet_length(checkpoint_id) <= {MAX_ID_BYTES}
    ORDER BY checkpoint_id DESC LIMIT {MAX_ROWS}
"""  # noqa: S608
_NAMESPACES = f"""
    SELECT DISTINCT CAST(checkpoint_ns AS BLOB) FROM checkpoints
    WHERE thread_id = ? AND checkpoint_ns > '' AND octet_length(checkpoint_ns) <= {MAX_ID_BYTES}
    LIMIT {MAX_ROWS}
"""  # noqa: S608
_CHECKPOINTS = f"""
    SELECT CAST(checkpoint_ns AS BLOB), CAST(checkpoint_id AS BLOB), {_SHORT("parent_checkpoint_id")},
        octet_length(checkpoint),
        CASE WHEN octet_length(metadata) <= {MAX_METADATA_BYTES} THEN CAST(metadata AS BLOB) END
    FROM checkpoints WHERE thread_id = ? {{keys}} AND {_KEY_BYTES}
    ORDER BY checkpoint_id DESC LIMIT {MAX_ROWS}
""".format  # noqa: S608
_TASKS = f"""
    SELECT CAST(checkpoint_ns AS BLOB), CAST(checkpoint_id AS BLOB), {_START("task_id")}, {{path}}, {_INDEX}
    FROM writes WHERE thread_id = ? {{keys}} AND {_KEY_BYTES}
    ORDER BY checkpoint_ns, checkpoint_id, task_id, idx
""".format  # noqa: S608
_NAMING_WRITES = f"""
    SELECT {_START("task_id")}, {_INDEX}, {_START("channel")}, {_SHORT("type")}, CAST(value AS BLOB)
    FROM writes WHERE thread_id = ? AND octet_length(value) <= {MAX_NAMING_BYTES}
        AND (idx = -3 OR idx >= 0 AND channel GLOB 'join:*') LIMIT {MAX_ROWS}
"""  # noqa: S608
_COMPARED_BYTES = """
    SELECT total(octet_length(checkpoint_ns) + octet_length(checkpoint_id)
        + coalesce(octet_length(parent_checkpoint_id), 0))
    FROM checkpoints WHERE thread_id = ? AND checkpoint_id <= ?
"""
# A row that is replaced gets another rowid.
_COMPARED_CHECKPOINTS = """
    SELECT CAST(group_concat(line, char(10)) AS BLOB) FROM (
        SELECT checkpoint_ns || ' ' || checkpoint_id || ' ' || coalesce(parent_checkpoint_id, '') || ' '
            || coalesce(octet_length(checkpoint), -1) || ' ' || coalesce(octet_length(metadata), -1)
            || ' ' || {rowid} AS line
        FROM checkpoints WHERE thread_id = ? AND checkpoint_id <= ? ORDER BY checkpoint_ns, checkpoint_id
    )
""".format
_COMPARED_WRITES = """
    SELECT count(*), total({rowid}), total(idx) FROM writes
    WHERE thread_id = ? AND checkpoint_id <= ?
        AND checkpoint_id NOT IN (SELECT value FROM json_each(?))
""".format
_KEYS_AFTER = """
    SELECT CAST(checkpoint_ns AS BLOB), CAST(checkpoint_id AS BLOB) FROM checkpoints
    WHERE thread_id = ? AND checkpoint_id > ? ORDER BY checkpoint_ns, checkpoint_id LIMIT ?
"""
_FIRST = """
    SELECT CAST(min(checkpoint_id) AS BLOB) FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ?
"""
_WITH_ID = """
    SELECT CAST(thread_id AS BLOB), CAST(checkpoint_ns AS BLOB), CAST(checkpoint_id AS BLOB)
    FROM checkpoints WHERE checkpoint_id = CAST(? AS TEXT)
"""
_INNER = f"""
    SELECT CAST(checkpoint_ns AS BLOB), CAST(checkpoint_id AS BLOB), {_BYTES("metadata")} FROM checkpoints
    WHERE thread_id = ? AND checkpoint_ns <> '' ORDER BY checkpoint_id
"""  # noqa: S608
_PARENT = f"SELECT {_SHORT('parent_checkpoint_id')} FROM checkpoints WHERE {_ONE}"  # noqa: S608
_SIZE = f"SELECT octet_length(checkpoint) FROM checkpoints WHERE {_ONE}"  # noqa: S608
_CHECKPOINT = f"""
    SELECT {_SHORT("parent_checkpoint_id")}, {_SHORT("type")}, octet_length(checkpoint),
        {_BYTES("checkpoint")}, {_BYTES("metadata")}
    FROM checkpoints WHERE {_ONE}
"""  # noqa: S608
_WRITES = f"""
    SELECT {_START("task_id")}, {{path}}, {_INDEX}, {_START("channel")}, {_SHORT("type")},
        octet_length(value), CASE WHEN octet_length(value) <= ? THEN {_BYTES("value")} END
    FROM writes WHERE {_ONE} ORDER BY task_id, idx LIMIT ?
""".format  # noqa: S608


class SqliteRows:
    """The implementation of ``Rows`` for the tables ``checkpoints`` and ``writes``.

    ``rowids`` are the names by which queries read the rowids of both tables.
    """

    has_last_only = False

    def __init__(
        self, query: Query, write_columns: Collection[str], rowids: tuple[str, str] = ("rowid", "rowid")
    ) -> None:
        self._query = query
        self._has_paths = "task_path" in write_columns
        self._path = _SHORT("task_path") if self._has_paths else "NULL"
        self._rowids = rowids

    def threads(self) -> Iterable[ThreadRow]:
        for thread, kind, head in self._all(_THREADS):
            yield ThreadRow(text_of(thread) if kind == "text" else "", kind, text_of(head))

    def has_thread(self, thread: str) -> bool:
        return bool(self._all("SELECT 1 FROM checkpoints WHERE thread_id = ? LIMIT 1", thread))

    def ends(self, thread: str) -> Ends:
        newest, oldest, count, steps = self._all(_ENDS, thread)[0]
        return Ends(text_of(newest), text_of(oldest), count, steps)

    def head_writes(self, thread: str, head: str) -> Iterable[tuple[str, int]]:
        for task, index in self._all(_HEAD_WRITES, thread, head):
            yield text_of(task), index or 0

    def parents(self, thread: str) -> Iterable[tuple[str, str]]:
        for own_id, parent_id in self._all(_PARENTS, thread):
            yield text_of(own_id), text_of(parent_id)

    def namespaces(self, thread: str) -> Iterable[str]:
        return [text_of(namespace) for (namespace,) in self._all(_NAMESPACES, thread)]

    def checkpoints(self, thread: str, keys: Sequence[Key] | None = None) -> Iterable[CheckpointRow]:
        condition, values = _with_keys(keys)
        rows = self._all(_CHECKPOINTS(keys=condition), thread, *values)
        for namespace, own_id, parent_id, size, metadata in rows:
            mark, parent = f"{size}:{len(metadata or b'')}", text_of(parent_id) or None
            yield CheckpointRow(text_of(namespace), text_of(own_id), parent, size or 0, mark, metadata)

    def tasks(
        self, thread: str, keys: Sequence[Key] | None = None
    ) -> Iterable[tuple[str, str, str, str, int]]:
        condition, values = _with_keys(keys)
        rows = self._all(_TASKS(keys=condition, path=self._path), thread, *values)
        for namespace, own_id, task, path, index in rows:
            yield text_of(namespace), text_of(own_id), text_of(task), text_of(path), index or 0

    def naming_writes(self, thread: str) -> Iterable[WriteRow]:
        """The interrupts, and the writes to channels that join nodes, if tasks have no paths."""
        for task, index, channel, kind, value in () if self._has_paths else self._all(_NAMING_WRITES, thread):
            own = text_of(task), "", index or 0, text_of(channel), text_of(kind)
            yield WriteRow(*own, len(value or b""), value)

    def digest(self, thread: str, last: str, heads: Sequence[str]) -> str:
        ((size,),) = self._all(_COMPARED_BYTES, thread, last)
        if size > MAX_COMPARED_BYTES:
            return ""
        of_checkpoints, of_writes = self._rowids
        ((lines,),) = self._all(_COMPARED_CHECKPOINTS(rowid=of_checkpoints), thread, last)
        writes = self._all(_COMPARED_WRITES(rowid=of_writes), thread, last, json.dumps(heads))
        return hashlib.sha256(repr(writes).encode() + (lines or b"")).hexdigest()

    def keys_after(self, thread: str, last: str, limit: int | None = None) -> list[Key]:
        rows = self._all(_KEYS_AFTER, thread, last, -1 if limit is None else limit)
        return [(text_of(namespace), text_of(own_id)) for namespace, own_id in rows]

    def first_id(self, thread: str, namespace: str) -> str:
        return text_of(self._all(_FIRST, thread, namespace)[0][0])

    def with_id(self, checkpoint_id: str) -> list[CheckpointKey]:
        return [CheckpointKey(*map(text_of, row)) for row in self._all(_WITH_ID, checkpoint_id)]

    def inner_checkpoints(self, thread: str) -> Iterable[tuple[str, str, bytes | None]]:
        for namespace, own_id, metadata in self._all(_INNER, thread):
            yield text_of(namespace), text_of(own_id), metadata

    def parent_of(self, key: CheckpointKey) -> str:
        return next((text_of(parent) for (parent,) in self._all(_PARENT, *key)), "")

    def size_of(self, key: CheckpointKey) -> int | None:
        return next((size or 0 for (size,) in self._all(_SIZE, *key)), None)

    def checkpoint(self, key: CheckpointKey) -> BodyRow | None:
        """A checkpoint with its values, which are all in one column; None if it does not exist."""
        for parent_id, kind, size, body, metadata in self._all(_CHECKPOINT, *key):
            return BodyRow(text_of(parent_id), text_of(kind), size or 0, body, metadata)
        return None

    def writes(self, key: CheckpointKey, budget: int | None = None) -> Iterable[WriteRow]:
        most, limit = (UNLIMITED, -1) if budget is None else (max(budget, 0), MAX_WRITES)
        # One by one: each value may be as large as the budget.
        for task, path, index, channel, kind, size, value in self._query(
            _WRITES(path=self._path), most, *key, limit
        ):
            own = text_of(task), text_of(path), index or 0
            yield WriteRow(*own, text_of(channel), text_of(kind), size or 0, value)

    def _all(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return list(self._query(statement, *values))


def text_of(value: object) -> str:
    """A text that was read as bytes; empty for anything else."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else ""


def _with_keys(keys: Sequence[Key] | None) -> tuple[str, list[str]]:
    """The condition for checkpoints with these keys, and the value of its parameter, if any."""
    return ("", []) if keys is None else (_WITH_KEYS, [json.dumps(keys)])

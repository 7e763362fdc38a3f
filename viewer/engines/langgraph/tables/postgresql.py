"""LangGraph's tables in a PostgreSQL database, as ``PostgresSaver`` and ``AsyncPostgresSaver`` write them.

The shallow savers store only the newest checkpoint of each namespace, without its id in a column.

The caller replaces the names in a statement: ``TABLES``, and those of ``expressions_for``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from . import (
    MAX_ID_BYTES,
    MAX_METADATA_BYTES,
    MAX_ROWS,
    MAX_WRITES,
    UNLIMITED,
    CheckpointKey,
    CheckpointRow,
    Ends,
    Key,
    Query,
    ThreadRow,
    WriteRow,
)

TABLES = ("checkpoints", "checkpoint_writes", "checkpoint_blobs")
MAX_BLOBS = 10_000
# The type of a channel without a value.
EMPTY = "empty"
# Each step is one search in the primary key, however many checkpoints a thread has.
_THREAD = """
    WITH RECURSIVE thread(id) AS (
        (SELECT min(thread_id) FROM {checkpoints})
        UNION ALL
        SELECT (SELECT min(thread_id) FROM {checkpoints} WHERE thread_id > thread.id) FROM thread
        WHERE thread.id IS NOT NULL
    )
"""
_THREADS = f"""{_THREAD}
    SELECT CASE WHEN octet_length(id) <= %s THEN id END, (
        SELECT max({{id}}) FROM {{checkpoints}} WHERE thread_id = thread.id AND checkpoint_ns = ''
    ) FROM thread WHERE id IS NOT NULL
"""  # noqa: S608
# Compares the digest of each part of the threads with a known one, as viewer/host/locations/indexing.py.
_CHANGED_THREADS = f"""{_THREAD}
    , listed AS MATERIALIZED (
        SELECT id, octet_length(id) <= %s AS is_shown,
            substr(encode(sha256(convert_to(id, 'UTF8')), 'hex'), 1, 2) AS part,
            (
                SELECT max({{id}}) FROM {{checkpoints}} WHERE thread_id = thread.id AND checkpoint_ns = ''
            ) AS head
        FROM thread WHERE id IS NOT NULL
    ), stored AS (
        SELECT part, encode(sha256(convert_to(
            string_agg(id || ' ' || head, chr(10) ORDER BY id COLLATE "C"), 'UTF8')), 'hex') AS digest
        FROM listed WHERE is_shown AND head IS NOT NULL GROUP BY part
    ), changed AS (
        SELECT part FROM stored FULL JOIN unnest(%s::text[], %s::text[]) AS known(part, digest) USING (part)
        WHERE known.digest IS DISTINCT FROM stored.digest
    )
    SELECT changed.part, CASE WHEN is_shown THEN id END, head
    FROM listed FULL JOIN changed USING (part)
    WHERE changed.part IS NOT NULL OR NOT is_shown ORDER BY id COLLATE "C"
"""  # noqa: S608
# An id contains its step. Fewer steps than checkpoints mean that a checkpoint has several children.
_ENDS = """
    SELECT max({id}), min({id}), count(*), count(DISTINCT substr({id}, 20, 4))
    FROM {checkpoints} WHERE thread_id = %s AND checkpoint_ns = ''
"""
_HEAD_WRITES = """
    SELECT task_id, idx FROM {checkpoint_writes}
    WHERE thread_id = %s AND checkpoint_ns = '' AND checkpoint_id {from_head} %s LIMIT 1000
"""
_PARENTS = """
    SELECT {id}, {parent} FROM {checkpoints}
    WHERE thread_id = %s AND checkpoint_ns = '' ORDER BY {id} DESC LIMIT %s
"""
_NAMESPACES = """
    SELECT DISTINCT checkpoint_ns FROM {checkpoints} WHERE thread_id = %s AND checkpoint_ns > '' LIMIT %s
"""
METADATA = "CASE WHEN octet_length(metadata::text) <= %s THEN metadata::text END"
CHECKPOINTS = f"""
    SELECT checkpoint_ns, {{id}}, {{parent}}, pg_column_size(checkpoint), xmin::text, {METADATA}
    FROM {{checkpoints}} WHERE thread_id = %s
"""  # noqa: S608
_METADATA_OF = f"""
    SELECT checkpoint_ns, {{id}}, {METADATA} FROM {{checkpoints}}
    WHERE thread_id = %s AND (checkpoint_ns, {{id}}) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
"""  # noqa: S608
_NEWEST_FIRST = "ORDER BY {id} DESC LIMIT %s"
_TASKS = """
    SELECT checkpoint_ns, checkpoint_id, task_id, {path}, idx FROM {checkpoint_writes} WHERE thread_id = %s
"""
_IN_ORDER = "ORDER BY checkpoint_ns, checkpoint_id, task_id, idx"
# An update makes another version of a row, with another transaction and position. Sums need no order.
_COMPARED_CHECKPOINTS = """
    SELECT count(*), sum(hashtextextended(
        concat_ws(' ', checkpoint_ns, checkpoint_id, parent_checkpoint_id, xmin, ctid), 0))::text
    FROM {checkpoints} WHERE thread_id = %s AND checkpoint_id COLLATE "C" <= %s
"""
_COMPARED_WRITES = """
    SELECT count(*), sum(hashtextextended(concat_ws(' ', xmin, ctid), 0))::text
    FROM {checkpoint_writes}
    WHERE thread_id = %s AND checkpoint_id COLLATE "C" <= %s AND checkpoint_id <> ALL(%s::text[])
"""
_KEYS_AFTER = """
    SELECT checkpoint_ns, {id} FROM {checkpoints} WHERE thread_id = %s AND {id} COLLATE "C" > %s
    ORDER BY checkpoint_ns COLLATE "C", {id} COLLATE "C" LIMIT %s
"""
_FIRST = """
    SELECT min({id} COLLATE "C") FROM {checkpoints} WHERE thread_id = %s AND checkpoint_ns = %s
"""
_WITH_ID = "SELECT thread_id, checkpoint_ns, {id} FROM {checkpoints} WHERE {id} = %s"
_INNER = """
    SELECT checkpoint_ns, {id}, metadata::text FROM {checkpoints}
    WHERE thread_id = %s AND checkpoint_ns <> '' ORDER BY {id}
"""
_PARENT = "SELECT {parent} FROM {checkpoints} WHERE thread_id = %s AND checkpoint_ns = %s AND {id} = %s"
_SIZE = _PARENT.replace("{parent}", "pg_column_size(checkpoint)")
_CHECKPOINT = """
    SELECT {parent}, octet_length(checkpoint::text),
        CASE WHEN octet_length(checkpoint::text) <= %s THEN checkpoint::text END
    FROM {checkpoints} WHERE thread_id = %s AND checkpoint_ns = %s AND {id} = %s
"""
# The smallest values first, as many as fit into the budget.
_BLOBS = """
    SELECT b.channel, b.type, octet_length(b.blob),
        CASE WHEN sum(octet_length(b.blob)) OVER (ORDER BY octet_length(b.blob), b.channel) <= %s
            THEN b.blob END
    FROM {checkpoint_blobs} b
    JOIN unnest(%s::text[], %s::text[]) AS wanted(channel, version)
        ON wanted.channel = b.channel AND wanted.version = {version}
    WHERE b.thread_id = %s AND b.checkpoint_ns = %s LIMIT %s
"""
_WRITES = """
    SELECT task_id, {path}, idx, channel, coalesce(type, ''), octet_length(blob),
        CASE WHEN octet_length(blob) <= %s THEN blob END
    FROM {checkpoint_writes} WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id = %s
    ORDER BY task_id, idx LIMIT %s
"""
_SENDS = """
    SELECT type, octet_length(blob), CASE WHEN octet_length(blob) <= %s THEN blob END
    FROM {checkpoint_writes} WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id = %s
        AND channel = '__pregel_tasks' AND idx >= 0 ORDER BY {path}, task_id, idx LIMIT %s
"""


def expressions_for(columns: Mapping[str, Collection[str]]) -> dict[str, str]:
    """The SQL that differs between versions of the tables with these columns, by name."""
    has_ids = "checkpoint_id" in columns["checkpoints"]
    return {
        "id": "checkpoint_id" if has_ids else "(checkpoint ->> 'id')",
        "parent": "parent_checkpoint_id" if has_ids else "NULL::text",
        # The shallow savers write the writes of a checkpoint before it.
        "from_head": "=" if has_ids else 'COLLATE "C" >=',
        "path": "task_path" if "task_path" in columns["checkpoint_writes"] else "''",
        "version": "b.version" if "version" in columns["checkpoint_blobs"] else "wanted.version",
    }


def as_stored(text: str) -> str:
    """The text without characters that PostgreSQL refuses. A text that had any equals no stored text."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


class PostgresqlRows:
    """The implementation of ``Rows`` for the tables of a database."""

    def __init__(self, query: Query, *, has_last_only: bool) -> None:
        self._query = query
        self.has_last_only = has_last_only

    def threads(self) -> Iterable[ThreadRow]:
        for thread, head in self._all(_THREADS, MAX_ID_BYTES):
            yield ThreadRow(thread or "", "text", head or "")

    def changed_threads(self, since: Mapping[str, str]) -> tuple[Iterable[ThreadRow], frozenset[str]]:
        """The threads of the parts whose digests differ from these, and these parts."""
        rows = self._all(_CHANGED_THREADS, MAX_ID_BYTES, list(since), list(since.values()))
        threads = [ThreadRow(thread or "", "text", head) for _part, thread, head in rows if head]
        return threads, frozenset(part for part, _thread, _head in rows if part)

    def has_thread(self, thread: str) -> bool:
        return bool(self._all("SELECT 1 FROM {checkpoints} WHERE thread_id = %s LIMIT 1", thread))

    def ends(self, thread: str) -> Ends:
        newest, oldest, count, steps = self._all(_ENDS, thread)[0]
        return Ends(newest or "", oldest or "", count, steps)

    def head_writes(self, thread: str, head: str) -> Iterable[tuple[str, int]]:
        return self._all(_HEAD_WRITES, thread, head)

    def parents(self, thread: str) -> Iterable[tuple[str, str]]:
        return [(own_id or "", parent or "") for own_id, parent in self._all(_PARENTS, thread, MAX_ROWS)]

    def namespaces(self, thread: str) -> Iterable[str]:
        return [namespace for (namespace,) in self._all(_NAMESPACES, thread, MAX_ROWS)]

    def checkpoints(self, thread: str, keys: Sequence[Key] | None = None) -> Iterable[CheckpointRow]:
        condition, values = _with_keys(keys, "{id}")
        statement = f"{CHECKPOINTS} {condition} {_NEWEST_FIRST}"
        for row in self._checkpoints(statement, (thread, *values, MAX_ROWS)):
            namespace, own_id, parent_id, size, written_by, metadata = row
            mark, encoded = f"{size}:{written_by}", (metadata or "").encode()
            yield CheckpointRow(namespace, own_id or "", parent_id, size, mark, encoded)

    def _checkpoints(self, statement: str, values: Sequence[Any]) -> Iterable[tuple[Any, ...]]:
        """The rows of a statement that begins with ``CHECKPOINTS``, with these other values."""
        return self._all(statement, MAX_METADATA_BYTES, *values)

    def metadata(
        self, thread: str, keys: Sequence[Key], max_bytes: int = MAX_METADATA_BYTES
    ) -> Mapping[Key, str | None]:
        """The metadata of these checkpoints; None if it is larger than ``max_bytes``."""
        rows = self._all(_METADATA_OF, max_bytes, thread, *_columns(keys))
        return {(namespace, own_id): text for namespace, own_id, text in rows}

    def tasks(
        self, thread: str, keys: Sequence[Key] | None = None
    ) -> Iterable[tuple[str, str, str, str, int]]:
        condition, values = _with_keys(keys, "checkpoint_id")
        return self._all(f"{_TASKS} {condition} {_IN_ORDER}", thread, *values)

    def naming_writes(self, thread: str) -> Iterable[WriteRow]:
        """Returns no writes: the nodes of tasks without a path stay unknown."""
        return ()

    def digest(self, thread: str, last: str, heads: Sequence[str]) -> str:
        checkpoints = self._all(_COMPARED_CHECKPOINTS, thread, last)
        writes = self._all(_COMPARED_WRITES, thread, last, list(heads))
        return hashlib.sha256(repr((checkpoints, writes)).encode()).hexdigest()

    def keys_after(self, thread: str, last: str, limit: int | None = None) -> list[Key]:
        return [(namespace, own_id) for namespace, own_id in self._all(_KEYS_AFTER, thread, last, limit)]

    def first_id(self, thread: str, namespace: str) -> str:
        return self._all(_FIRST, thread, namespace)[0][0] or ""

    def with_id(self, checkpoint_id: str) -> list[CheckpointKey]:
        return [CheckpointKey(*row) for row in self._all(_WITH_ID, checkpoint_id)]

    def inner_checkpoints(self, thread: str) -> Iterable[tuple[str, str, bytes | None]]:
        for namespace, own_id, metadata in self._all(_INNER, thread):
            yield namespace, own_id or "", (metadata or "").encode()

    def parent_of(self, key: CheckpointKey) -> str:
        return next((parent or "" for (parent,) in self._all(_PARENT, *key)), "")

    def size_of(self, key: CheckpointKey) -> int | None:
        """The size of a checkpoint in bytes, without values in other tables; None if it does not exist."""
        return next((size for (size,) in self._all(_SIZE, *key)), None)

    def checkpoint(
        self, key: CheckpointKey, max_bytes: int = UNLIMITED
    ) -> tuple[str | None, int, str | None] | None:
        """A checkpoint's parent, its size in bytes and its text; None if it does not exist.

        The text has only the small values, and is None if it is larger than ``max_bytes``.
        """
        return next(
            ((parent, size, text) for parent, size, text in self._all(_CHECKPOINT, max_bytes, *key)), None
        )

    def blobs(
        self, key: CheckpointKey, versions: Mapping[str, Any], budget: int | None = None
    ) -> list[tuple[str, str, int | None, bytes | None]]:
        """The channel, type, size and bytes of each value of these versions, from the table of values.

        With a budget, at most ``MAX_BLOBS``, and larger values are None.
        """
        most, limit = (UNLIMITED, None) if budget is None else (max(budget, 0), MAX_BLOBS)
        texts = [str(version) for version in versions.values()]
        rows = self._all(_BLOBS, most, list(versions), texts, key.thread, key.namespace, limit)
        return [(channel, kind, size, blob) for channel, kind, size, blob in rows if kind != EMPTY]

    def sends(
        self, parent: CheckpointKey, budget: int | None = None
    ) -> list[tuple[str, int | None, bytes | None]]:
        """The type, size and bytes of what the tasks after a checkpoint sent to nodes.

        They are in the order of the numbers that the sends get.
        """
        most, limit = (UNLIMITED, None) if budget is None else (max(budget, 0), MAX_WRITES)
        return [(kind, size, blob) for kind, size, blob in self._all(_SENDS, most, *parent, limit)]

    def writes(self, key: CheckpointKey, budget: int | None = None) -> Iterable[WriteRow]:
        most, limit = (UNLIMITED, None) if budget is None else (max(budget, 0), MAX_WRITES)
        for row in self._writes(key, most, limit):
            yield WriteRow(*row)

    def _writes(self, key: CheckpointKey, most: int, limit: int | None) -> Sequence[tuple[Any, ...]]:
        """The columns of the writes of a checkpoint, with values of at most so many bytes."""
        return self._all(_WRITES, most, *key, limit)

    def _all(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement, with texts and lists of texts as PostgreSQL accepts them."""
        return list(self._query(statement, *map(_stored, values)))


def _stored(value: Any) -> Any:
    if isinstance(value, list):
        return [as_stored(one) for one in value]
    return as_stored(value) if isinstance(value, str) else value


def _with_keys(keys: Sequence[Key] | None, column: str) -> tuple[str, tuple[Any, ...]]:
    """The condition for rows with these keys, whose ids are in a column, and the values of its parameters."""
    if keys is None:
        return "", ()
    namespaces, ids = _columns(keys)
    if len(set(namespaces)) == 1:
        # Each id is one search in the primary key. For the other condition, the whole thread is read.
        return f"AND checkpoint_ns = %s AND {column} = ANY(%s)", (namespaces[0], ids)
    condition = f"AND (checkpoint_ns, {column}) IN (SELECT * FROM unnest(%s::text[], %s::text[]))"  # noqa: S608
    return condition, (namespaces, ids)


def _columns(keys: Sequence[Key]) -> tuple[list[str], list[str]]:
    return [namespace for namespace, _id in keys], [own_id for _namespace, own_id in keys]

"""LangGraph's tables in PostgreSQL, as ``PostgresSaver`` and ``AsyncPostgresSaver`` write them."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from viewer.engines.langgraph.decoding import Decoder
from viewer.engines.langgraph.super_steps import mapping
from viewer.engines.langgraph.tables.protocol import (
    CHECKPOINT_COLUMNS,
    MAX_APPENDED,
    MAX_METADATA_BYTES,
    MAX_ROWS,
    MAX_WRITES,
    WRITE_COLUMNS,
    CheckpointKey,
    CheckpointRow,
    Ends,
    StoredCheckpoint,
    ThreadRow,
    WriteRow,
)
from viewer.stores.errors import LocationUnreadable, Unavailable, Unreadable, too_large
from viewer.stores.postgresql import PostgresqlDatabase

# Finds what was appended to a thread in a PostgreSQL database, without reading its other rows again.


# An update makes another version of a row, with another transaction and position. Sums need no order.
_APPENDED_CHECKPOINTS = """
    SELECT count(*), sum(hashtextextended(
        concat_ws(' ', checkpoint_ns, checkpoint_id, parent_checkpoint_id, xmin, ctid), 0))::text
    FROM {checkpoints} WHERE thread_id = %s AND checkpoint_id COLLATE "C" <= %s
"""
_APPENDED_WRITES = """
    SELECT count(*), sum(hashtextextended(concat_ws(' ', xmin, ctid), 0))::text
    FROM {checkpoint_writes}
    WHERE thread_id = %s AND checkpoint_id COLLATE "C" <= %s AND checkpoint_id <> ALL(%s::text[])
"""
_AFTER = """
    SELECT checkpoint_ns, checkpoint_id FROM {checkpoints}
    WHERE thread_id = %s AND checkpoint_id COLLATE "C" > %s
    ORDER BY checkpoint_ns COLLATE "C", checkpoint_id COLLATE "C" LIMIT %s
"""
_FIRST = """
    SELECT min(checkpoint_id COLLATE "C") FROM {checkpoints} WHERE thread_id = %s AND checkpoint_ns = %s
"""
_WITH_KEYS = "AND (checkpoint_ns, checkpoint_id) IN (SELECT * FROM unnest(%s::text[], %s::text[]))"


class _Tables(Protocol):
    """What is used of ``PostgresqlTables``."""

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]: ...

    def some_checkpoints(self, thread: str, condition: str, *values: Any) -> Iterable[CheckpointRow]: ...

    def some_tasks(
        self, thread: str, condition: str, *values: Any
    ) -> Iterable[tuple[str, str, str, str, int]]: ...


def as_stored(text: str) -> str:
    """The text without characters that PostgreSQL refuses. A text that had any equals no stored text."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


class PostgresqlAppendedRows:
    """The implementation of ``AppendedRows`` for the tables of a database."""

    def __init__(self, tables: _Tables) -> None:
        self._tables = tables

    def digest(self, thread: str, last: str, heads: Sequence[str]) -> str:
        """As in ``AppendedRows``."""
        at = as_stored(thread), as_stored(last)
        checkpoints = self._tables.query(_APPENDED_CHECKPOINTS, *at)
        writes = self._tables.query(_APPENDED_WRITES, *at, [as_stored(one) for one in heads])
        return hashlib.sha256(repr((checkpoints, writes)).encode()).hexdigest()

    def ids_after(self, thread: str, last: str) -> list[tuple[str, str]]:
        """As in ``AppendedRows``."""
        found = self._tables.query(_AFTER, as_stored(thread), as_stored(last), MAX_APPENDED + 1)
        return [(namespace, own_id) for namespace, own_id in found]

    def checkpoints(self, thread: str, keys: Sequence[tuple[str, str]]) -> Iterable[CheckpointRow]:
        """As in ``AppendedRows``."""
        return self._tables.some_checkpoints(thread, _WITH_KEYS, *_columns(keys))

    def tasks(self, thread: str, keys: Sequence[tuple[str, str]]) -> Iterable[tuple[str, str, str, str, int]]:
        """As in ``AppendedRows``."""
        return self._tables.some_tasks(thread, _WITH_KEYS, *_columns(keys))

    def first_id(self, thread: str, namespace: str) -> str:
        """As in ``AppendedRows``."""
        return self._tables.query(_FIRST, as_stored(thread), as_stored(namespace))[0][0] or ""


def _columns(keys: Sequence[tuple[str, str]]) -> tuple[list[str], list[str]]:
    namespaces, ids = [], []
    for namespace, own_id in keys:
        namespaces.append(as_stored(namespace))
        ids.append(as_stored(own_id))
    return namespaces, ids


# LangGraph's tables in a PostgreSQL database, as ``PostgresSaver`` and ``AsyncPostgresSaver`` write them.
#
# The shallow savers store only the newest checkpoint of each namespace, without its id in a column. Imported
# only in a reader process, since it loads libpq.


_TABLES = ("checkpoints", "checkpoint_writes", "checkpoint_blobs")
_WRITE_COLUMNS = WRITE_COLUMNS | {"blob"}
_BLOB_COLUMNS = frozenset({"thread_id", "checkpoint_ns", "channel", "type", "blob"})
_NEEDED = (CHECKPOINT_COLUMNS, _WRITE_COLUMNS, _BLOB_COLUMNS)
MAX_BLOBS = 10_000
# Threads with longer ids are listed as problems.
MAX_ID_BYTES = 4096
# The type of a channel without a value.
_EMPTY = "empty"
# Each step is one search in the primary key, however many checkpoints a thread has.
_THREADS = """
    WITH RECURSIVE thread(id) AS (
        (SELECT min(thread_id) FROM {checkpoints})
        UNION ALL
        SELECT (SELECT min(thread_id) FROM {checkpoints} WHERE thread_id > thread.id) FROM thread
        WHERE thread.id IS NOT NULL
    )
    SELECT CASE WHEN octet_length(id) <= %s THEN id END, (
        SELECT max({id}) FROM {checkpoints} WHERE thread_id = thread.id AND checkpoint_ns = ''
    ) FROM thread WHERE id IS NOT NULL
"""
# Compares the digest of each part of the threads with a known one, as viewer/host/reading/new_entries.py.
_CHANGED_THREADS = """
    WITH RECURSIVE thread(id) AS (
        (SELECT min(thread_id) FROM {checkpoints})
        UNION ALL
        SELECT (SELECT min(thread_id) FROM {checkpoints} WHERE thread_id > thread.id) FROM thread
        WHERE thread.id IS NOT NULL
    ), listed AS MATERIALIZED (
        SELECT id, octet_length(id) <= %s AS is_shown,
            substr(encode(sha256(convert_to(id, 'UTF8')), 'hex'), 1, 2) AS part,
            (SELECT max({id}) FROM {checkpoints} WHERE thread_id = thread.id AND checkpoint_ns = '') AS head
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
"""
# An id contains its step. Fewer steps than checkpoints mean that a checkpoint has several children.
_HEAD = """
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
_METADATA = "CASE WHEN octet_length(metadata::text) <= %s THEN metadata::text END"
_CHECKPOINTS = f"""
    SELECT checkpoint_ns, {{id}}, {{parent}}, pg_column_size(checkpoint), xmin::text, {_METADATA}
    FROM {{checkpoints}} WHERE thread_id = %s
"""  # noqa: S608
_METADATA_OF = f"""
    SELECT checkpoint_ns, {{id}}, {_METADATA} FROM {{checkpoints}}
    WHERE thread_id = %s AND (checkpoint_ns, {{id}}) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
"""  # noqa: S608
_NEWEST_FIRST = "ORDER BY {id} DESC LIMIT %s"
_TASKS = """
    SELECT checkpoint_ns, checkpoint_id, task_id, {path}, idx FROM {checkpoint_writes} WHERE thread_id = %s
"""
_IN_ORDER = "ORDER BY checkpoint_ns, checkpoint_id, task_id, idx"
_SIZE = """
    SELECT pg_column_size(checkpoint) FROM {checkpoints}
    WHERE thread_id = %s AND checkpoint_ns = %s AND {id} = %s
"""
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


class PostgresqlTables(PostgresqlDatabase):
    """``Tables`` of a database: ``checkpoints``, ``checkpoint_blobs`` and ``checkpoint_writes``."""

    def read_schema(self) -> None:
        """Find the tables and check their columns. Raises LocationUnreadable."""
        self.find_tables(_TABLES)
        columns = {table: self.columns_of(table) for table in _TABLES}
        for table, needed in zip(_TABLES, _NEEDED, strict=True):
            if not columns[table] >= needed:
                raise LocationUnreadable("langgraph.columns_missing", table=table)
        has_ids = "checkpoint_id" in columns["checkpoints"]
        self.expressions = {
            "id": "checkpoint_id" if has_ids else "(checkpoint ->> 'id')",
            "parent": "parent_checkpoint_id" if has_ids else "NULL::text",
            # The shallow savers write the writes of a checkpoint before it.
            "from_head": "=" if has_ids else 'COLLATE "C" >=',
            "path": "task_path" if "task_path" in columns["checkpoint_writes"] else "''",
            "version": "b.version" if "version" in columns["checkpoint_blobs"] else "wanted.version",
        }

    def threads(self) -> Iterable[ThreadRow]:
        for thread, head in self.query(_THREADS, MAX_ID_BYTES):
            yield ThreadRow(thread or "", "text", head or "")

    def changed_threads(self, known: Mapping[str, str]) -> tuple[Iterable[ThreadRow], frozenset[str]]:
        """The threads of the parts whose digests differ from these, and these parts."""
        rows = self.query(_CHANGED_THREADS, MAX_ID_BYTES, list(known), list(known.values()))
        threads = [ThreadRow(thread or "", "text", head) for _part, thread, head in rows if head]
        return threads, frozenset(part for part, _thread, _head in rows if part)

    def has_thread(self, thread: str) -> bool:
        return bool(self.query("SELECT 1 FROM {checkpoints} WHERE thread_id = %s LIMIT 1", as_stored(thread)))

    def ends(self, thread: str) -> Ends:
        newest, oldest, count, steps = self.query(_HEAD, as_stored(thread))[0]
        return Ends(newest or "", oldest or "", count, steps)

    def head_writes(self, thread: str, head: str) -> Iterable[tuple[str, int]]:
        return self.query(_HEAD_WRITES, as_stored(thread), as_stored(head))

    def parents(self, thread: str) -> Iterable[tuple[str, str]]:
        return [
            (own_id or "", parent or "")
            for own_id, parent in self.query(_PARENTS, as_stored(thread), MAX_ROWS)
        ]

    def namespaces(self, thread: str) -> Iterable[str]:
        return [namespace for (namespace,) in self.query(_NAMESPACES, as_stored(thread), MAX_ROWS)]

    @property
    def has_last_only(self) -> bool:
        return self.expressions["id"] != "checkpoint_id"

    @property
    def appended(self) -> PostgresqlAppendedRows | None:
        """What finds appended rows. None for the tables of shallow savers, which replace rows."""
        return None if self.has_last_only else PostgresqlAppendedRows(self)

    def checkpoints(self, thread: str, ids: Sequence[str] | None = None) -> Iterable[CheckpointRow]:
        if ids is None:
            return self.some_checkpoints(thread, "")
        condition = "AND checkpoint_ns = '' AND {id} = ANY(%s)"
        return self.some_checkpoints(thread, condition, [as_stored(one) for one in ids])

    def some_checkpoints(self, thread: str, condition: str, *values: Any) -> Iterable[CheckpointRow]:
        """The newest checkpoints of a thread that meet a condition in SQL."""
        statement = f"{_CHECKPOINTS} {condition} {_NEWEST_FIRST}"
        own = as_stored(thread)
        try:
            found = self.row(lambda: self.query(statement, MAX_METADATA_BYTES, own, *values, MAX_ROWS))
        except Unreadable:
            without = statement.replace(_METADATA, "NULL")
            found = [row[:-1] for row in self.query(without, own, *values, MAX_ROWS)]
            texts = self._metadata(own, [(namespace, own_id) for namespace, own_id, *_others in found])
            found = [(*row, texts.get((row[0], row[1]))) for row in found]
        for namespace, own_id, parent_id, size, written_by, metadata in found:
            mark, encoded = f"{size}:{written_by}", (metadata or "").encode()
            yield CheckpointRow(namespace, own_id or "", parent_id, size, mark, encoded)

    def _metadata(self, thread: str, keys: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], str | None]:
        """The metadata of these rows, without those that the server cannot read."""
        namespaces, ids = [key[0] for key in keys], [key[1] for key in keys]
        try:
            rows = self.row(lambda: self.query(_METADATA_OF, MAX_METADATA_BYTES, thread, namespaces, ids))
            return {(namespace, own_id): text for namespace, own_id, text in rows}
        except Unreadable:
            half = len(keys) // 2
            if not half:
                return {}
            return {**self._metadata(thread, keys[:half]), **self._metadata(thread, keys[half:])}

    def tasks(
        self, thread: str, ids: Sequence[str] | None = None
    ) -> Iterable[tuple[str, str, str, str, int]]:
        if ids is None:
            return self.some_tasks(thread, "")
        condition = "AND checkpoint_ns = '' AND checkpoint_id = ANY(%s)"
        return self.some_tasks(thread, condition, [as_stored(one) for one in ids])

    def some_tasks(
        self, thread: str, condition: str, *values: Any
    ) -> Iterable[tuple[str, str, str, str, int]]:
        """The same of the writes that meet a condition in SQL."""
        return self.query(f"{_TASKS} {condition} {_IN_ORDER}", as_stored(thread), *values)

    def naming_writes(self, thread: str) -> Iterable[WriteRow]:
        """Returns no writes: the nodes of tasks without a path stay unknown."""
        return ()

    def size_of(self, key: CheckpointKey) -> int | None:
        """The size of a checkpoint in bytes, without values in other tables; None if it does not exist."""
        rows = self.query(_SIZE, *map(as_stored, key))
        return rows[0][0] if rows else None

    def checkpoint(
        self, key: CheckpointKey, max_bytes: int, decoder: Decoder | None = None
    ) -> StoredCheckpoint:
        """A checkpoint with the values of its channels from both tables. Raises Unreadable."""
        rows = self.row(lambda: self.query(_CHECKPOINT, max_bytes, *map(as_stored, key)))
        if not rows:
            raise Unavailable("store.row_vanished")
        parent_id, size, text = rows[0]
        metadata = self._metadata(
            as_stored(key.thread), [(as_stored(key.namespace), as_stored(key.checkpoint_id))]
        )
        if text is None:
            raise too_large(size, self.limits)
        decoder = decoder or Decoder(self.limits)
        body = decoder.value("json", text.encode())
        if isinstance(body, dict):
            versions = mapping(body.get("channel_versions"))
            values, size_of_values = self._values(key, versions, max_bytes - size, decoder)
            # Since 0.6, the checkpoint itself has small values, and placeholders for the other values.
            body["channel_values"] = {**mapping(body.get("channel_values")), **values}
            size += size_of_values
            if body.get("pending_sends") == [] and parent_id:
                # Until 0.4, what a node sent is only among the writes of the checkpoint before.
                body["pending_sends"] = self._sends(
                    key._replace(checkpoint_id=parent_id), max_bytes - size, decoder
                )
        text = next(iter(metadata.values()), None)
        # Without a text, it is too large or damaged.
        return StoredCheckpoint(parent_id, size, body, b"" if text is None else text.encode())

    def _sends(self, parent: CheckpointKey, budget: int, decoder: Decoder) -> list[Any]:
        """What the tasks after a checkpoint sent to nodes, in the order of the numbers that the sends get."""
        at = map(as_stored, parent)
        return [
            decoder.value_or_placeholder(kind, blob, size or 0)
            for kind, size, blob in self.query(_SENDS, max(budget, 0), *at, MAX_WRITES)
        ]

    def _values(
        self, key: CheckpointKey, versions: Mapping[str, Any], budget: int, decoder: Decoder
    ) -> tuple[dict[str, Any], int]:
        """The values in ``checkpoint_blobs`` by channel, and their size in bytes.

        Values beyond the budget are opaque.
        """
        wanted = (
            [as_stored(name) for name in versions],
            [as_stored(str(version)) for version in versions.values()],
        )
        at = as_stored(key.thread), as_stored(key.namespace)
        values, total = dict[str, Any](), 0
        try:
            rows = self.row(lambda: self.query(_BLOBS, max(budget, 0), *wanted, *at, MAX_BLOBS))
        except Unreadable:
            rows = list(self._readable_blobs(wanted, at, budget))
        for channel, kind, size, blob in rows:
            if kind != _EMPTY:
                values[channel] = decoder.value_or_placeholder(kind, blob, size or 0)
                total += len(blob or b"")
        return values, total

    def _readable_blobs(
        self, wanted: tuple[list[str], list[str]], at: tuple[str, str], budget: int
    ) -> Iterator[tuple[Any, ...]]:
        """The rows of ``_BLOBS``, each read alone. Those that the server cannot read have no value."""
        for channel, version in zip(*wanted, strict=True):
            for most in (max(budget, 0), -1):
                try:
                    found = self.row(partial(self.query, _BLOBS, most, [channel], [version], *at, 1))
                except Unreadable:
                    continue
                budget -= sum(len(row[-1] or b"") for row in found)
                yield from found
                break

    def writes(self, key: CheckpointKey, budget: int) -> Iterable[WriteRow]:
        def read(most: int) -> list[tuple[Any, ...]]:
            return self.query(_WRITES, most, *map(as_stored, key), MAX_WRITES)

        try:
            rows = self.row(lambda: read(max(budget, 0)))
        except Unreadable:
            # The values of the smallest writes are read, up to the first that the server cannot read.
            rows = self._smaller_writes(read, max(budget, 0))
        for row in rows:
            yield WriteRow(*row)

    def _smaller_writes(
        self, read: Callable[[int], list[tuple[Any, ...]]], most: int
    ) -> list[tuple[Any, ...]]:
        """The writes with the values of at most the largest size that the server can read."""
        readable = read(-1)
        sizes = sorted({row[5] for row in readable if row[5] is not None and row[5] <= most})
        while sizes:
            middle = len(sizes) // 2
            try:
                readable = self.row(partial(read, sizes[middle]))
                sizes = sizes[middle + 1 :]
            except Unreadable:
                sizes = sizes[:middle]
        return readable

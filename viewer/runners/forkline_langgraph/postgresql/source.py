"""Reads a user's threads in PostgreSQL, in one read-only transaction.

Statements are assembled from texts in this file only: columns differ between versions of the tables.
"""
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from psycopg.rows import tuple_row

from forkline_langgraph.postgresql import connection as connections
from forkline_langgraph.restore.inert_values import packed, unpacked
from forkline_langgraph.restore.source_store import TASKS, Address, LoadedValue, SqliteRow, WriteRow
from forkline_runner.messages import Refused

TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
TIMEOUT_MILLISECONDS = "60000"
EMPTY = "empty"
# Old versions keep sent tasks in a checkpoint. A database has them only in the writes of its parent.
SENDS = "pending_sends"


@contextmanager
def opened(path: object) -> Iterator[PostgresqlSource]:
    """Yield the threads of a database, in one transaction. Raises Refused."""
    with (
        connections.connected(path, read_only=True) as connection,
        connections.refusing(path),
        connection.transaction(),
    ):
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT set_config('statement_timeout', %s, true)", (TIMEOUT_MILLISECONDS,))
        if not has_tables(connection):
            raise Refused("langgraph.foreign_database", path=path)
        yield PostgresqlSource(connection)


def has_tables(connection: Any) -> bool:
    """Return whether the database has the tables of the engine's saver."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        found = cursor.execute(
            "SELECT bool_and(to_regclass(name) IS NOT NULL) FROM unnest(%s::text[]) AS name", (list(TABLES),)
        )
        return bool(found.fetchone()[0])


def columns_of(connection: Any, table: str) -> set[str]:
    """Return the names of a table's columns; none if the connection does not find the table."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        rows = cursor.execute(
            "SELECT attname::text FROM pg_catalog.pg_attribute"
            " WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
            (table,),
        )
        return {str(name) for (name,) in rows}


def has_last_only(connection: Any) -> bool:
    """Return whether a shallow saver made the tables, which have only the newest checkpoint of a thread."""
    return "checkpoint_id" not in columns_of(connection, "checkpoints")


class PostgresqlSource:
    """A ``Source`` for a PostgreSQL database."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        is_shallow = has_last_only(connection)
        self._id = "(checkpoint ->> 'id')" if is_shallow else "checkpoint_id"
        self._parent = "''" if is_shallow else "coalesce(parent_checkpoint_id, '')"
        self._version = "true" if is_shallow else "version = wanted.wanted_version"
        columns = columns_of(connection, "checkpoint_writes")
        self._path = "task_path" if "task_path" in columns else "''"
        self._at = f"thread_id = %s AND checkpoint_ns = %s AND {self._id} = %s"

    def addresses(self, identifier: str) -> list[Address]:
        rows = self._rows(
            f"SELECT thread_id, checkpoint_ns, {self._id} FROM checkpoints WHERE {self._id} = %s", identifier
        )
        return [Address(*row) for row in rows]

    def checkpoints(self, thread: str) -> set[tuple[str, str]]:
        """Return the namespaces and ids of a thread's checkpoints."""
        rows = self._rows(f"SELECT checkpoint_ns, {self._id} FROM checkpoints WHERE thread_id = %s", thread)
        return {(str(namespace), str(identifier)) for namespace, identifier in rows}

    def head_of(self, thread: str) -> str:
        rows = self._rows(
            f"SELECT max({self._id}) FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = ''", thread
        )
        return next((str(head or "") for (head,) in rows), "")

    def parent_of(self, address: Address) -> str:
        rows = self._rows(f"SELECT {self._parent} FROM checkpoints WHERE {self._at}", *address)
        return next((str(parent) for (parent,) in rows), "")

    def write_rows(self, address: Address) -> list[WriteRow]:
        rows = self._rows(
            f"SELECT task_id, {self._path}, idx, channel, coalesce(type, ''), blob FROM checkpoint_writes"
            " WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id = %s ORDER BY task_id, idx",
            *address,
        )
        return [WriteRow(*row) for row in rows]

    def row(self, address: Address) -> SqliteRow | None:
        """Return the checkpoint in the format of a SQLite store, without loading values; None if missing."""
        found = self._checkpoint(address)
        if found is None:
            return None
        parent, checkpoint, metadata = found
        values = dict(checkpoint.get("channel_values") or {})
        for channel, kind, blob in self._blobs(address, checkpoint):
            values[channel] = _inert(channel, kind, blob)
        if SENDS in checkpoint:
            checkpoint[SENDS] = self._sends(address._replace(id=parent))
        return SqliteRow(
            parent, "msgpack", packed({**checkpoint, "channel_values": values}), metadata.encode()
        )

    def _sends(self, parent: Address) -> list[Any]:
        """Return the tasks that a checkpoint has sent to its child, in the order of their numbers."""
        sent = [row for row in self.write_rows(parent) if row.channel == TASKS]
        sent.sort(key=lambda row: (row.path, row.task, row.idx))
        return [_inert(TASKS, row.type, row.value) for row in sent]

    def values_at(self, address: Address) -> list[LoadedValue]:
        found = self._checkpoint(address)
        if found is None:
            return []
        parent, checkpoint, metadata = found
        blobs = [LoadedValue(kind, blob, channel) for channel, kind, blob in self._blobs(address, checkpoint)]
        before = self.write_rows(address._replace(id=parent))
        writes = [*self.write_rows(address), *(row for row in before if row.channel == TASKS)]
        values = [LoadedValue(row.type, row.value, row.channel) for row in writes]
        return [LoadedValue("json", metadata.encode(), "its metadata"), *blobs, *values]

    def inner(self, thread: str) -> Iterable[tuple[str, str, Any]]:
        return self._rows(
            f"SELECT checkpoint_ns, {self._id}, metadata::text FROM checkpoints"
            f" WHERE thread_id = %s AND checkpoint_ns <> '' ORDER BY {self._id}",
            thread,
        )

    def _checkpoint(self, address: Address) -> tuple[str, dict[str, Any], str] | None:
        rows = self._rows(
            f"SELECT {self._parent}, checkpoint, metadata::text FROM checkpoints WHERE {self._at}",
            *address,
        )
        return next(((str(parent), dict(found), metadata or "{}") for parent, found, metadata in rows), None)

    def _blobs(self, address: Address, checkpoint: dict[str, Any]) -> list[tuple[str, str, bytes]]:
        """Return the channel, type and bytes of each value that is not in the checkpoint itself."""
        versions = checkpoint.get("channel_versions") or {}
        rows = self._rows(
            "SELECT channel, type, blob FROM checkpoint_blobs"
            " JOIN unnest(%s::text[], %s::text[]) AS wanted(wanted_channel, wanted_version)"
            f" ON channel = wanted.wanted_channel AND {self._version}"
            " WHERE thread_id = %s AND checkpoint_ns = %s",
            list(versions),
            [str(version) for version in versions.values()],
            address.thread,
            address.namespace,
        )
        return [(channel, kind, blob) for channel, kind, blob in rows if kind != EMPTY]

    def _rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._connection.cursor(row_factory=tuple_row) as cursor:
            found: list[tuple[Any, ...]] = cursor.execute(statement, values).fetchall()
            return found


def _inert(channel: str, kind: str, blob: bytes) -> Any:
    """Return a stored value without loading what it names. Raises Refused for an unknown type."""
    if kind == "msgpack":
        return unpacked(blob)
    if kind == "null":
        return None
    if kind in ("bytes", "bytearray"):
        return bytes(blob)
    raise Refused("langgraph.value_not_copied", channel=channel, type=kind)

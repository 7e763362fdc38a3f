"""Reads the checkpoints of a user's store, and finds those that a run continues.

The SQL is that of viewer/engines/langgraph/tables.
"""

from __future__ import annotations

import importlib.util
import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from forkline_langgraph import opening
from forkline_langgraph.opening import address_of_file, state_of
from forkline_runner.messages import Refused

if TYPE_CHECKING:
    from viewer.engines.langgraph.tables import postgresql
    from viewer.engines.langgraph.tables.row_shapes import (
        TASKS,
        UNLIMITED,
        BodyRow,
        CheckpointKey,
        Key,
        Rows,
        WriteRow,
    )
    from viewer.engines.langgraph.tables.sqlite import SqliteRows
    from viewer.engines.runner_request import Request
else:
    from forkline_tables import postgresql
    from forkline_tables.row_shapes import TASKS, UNLIMITED, BodyRow, CheckpointKey, Key, Rows, WriteRow
    from forkline_tables.sqlite import SqliteRows

# Of the tables, what other modules need.
__all__ = ["TASKS", "CheckpointKey", "Key", "Rows", "SqliteRows", "WriteRow", "postgresql"]

# The engine's extension type of a channel's snapshot (langgraph/checkpoint/serde/jsonplus.py).
SNAPSHOT = 7


@dataclass(frozen=True)
class InertObject:
    """An object as the engine's serializer stored it: the code of its extension type, and its bytes."""

    code: int
    data: bytes


def unpacked(data: bytes) -> Any:
    """Return the decoded value, with each object as an ``InertObject``."""
    import ormsgpack

    return ormsgpack.unpackb(data, ext_hook=InertObject, option=ormsgpack.OPT_NON_STR_KEYS)


def packed(value: Any) -> bytes:
    """Return the bytes of a value that ``unpacked`` returned, or of one made of such values."""
    import ormsgpack

    option = ormsgpack.OPT_NON_STR_KEYS | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    return bytes(ormsgpack.packb(value, default=_ext, option=option))


def _ext(value: Any) -> Any:
    import ormsgpack

    if not isinstance(value, InertObject):
        raise TypeError(type(value).__name__)
    return ormsgpack.Ext(value.code, value.data)


LOCK_SECONDS = 5
# The channels of writes that do not finish their task.
ANSWERS, INTERRUPTS, ERRORS = "__resume__", "__interrupt__", "__error__"
SPECIAL = {ANSWERS, INTERRUPTS, ERRORS, "__scheduled__", "__error_source_node__"}
SQLITE_TABLES = {"checkpoints", "writes"}
# The first version of SQLite with ``octet_length``.
HAS_OCTET_LENGTH = (3, 43)
TIMEOUT_MILLISECONDS = "60000"
# Old versions keep sent tasks in a checkpoint. A database has them only in the writes of its parent.
SENDS = "pending_sends"


@dataclass(frozen=True)
class LoadedValue:
    """A stored value that a run loads. ``what`` describes it to a person."""

    type: str | None
    data: bytes | None
    what: str


class Source(Protocol):
    """The threads of a store, which is only read."""

    @property
    def rows(self) -> Rows:
        """The rows of the store's tables."""

    def body(self, key: CheckpointKey) -> BodyRow | None:
        """Return the checkpoint in the format of a SQLite store; None if there is none."""

    def values_at(self, key: CheckpointKey) -> list[LoadedValue]:
        """Return all values loaded with a checkpoint: its own, its writes, and tasks that its parent sent."""


@contextmanager
def opened(path: Path, scratch: Path) -> Iterator[Source]:
    """Yield the threads of a store. ``scratch``: the folder for a copy, if one is needed. Raises Refused."""
    if opening.is_database(path):
        with opened_database(path) as found:
            yield found
        return
    with opened_file(path, scratch) as file:
        yield SqliteSource(file)


@contextmanager
def opened_file(path: Path, scratch: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection that sees one state of the file. Raises Refused if there was none."""
    try:
        address, state = address_of_file(path, scratch)
        connected = sqlite3.connect(address, uri=True, timeout=LOCK_SECONDS)
    except (OSError, sqlite3.Error) as error:
        raise Refused("langgraph.store_unreadable", path=path, error=error) from error
    try:
        connected.execute("BEGIN")
        refuse_foreign(connected, path)
        yield connected
    except (sqlite3.Error, UnicodeEncodeError) as error:
        # A text that is not UTF-8 is read, but cannot be written to a copy.
        raise Refused("langgraph.store_unreadable", path=path, error=error) from error
    finally:
        connected.close()
    # A log that has appeared since is not read.
    if state is not None and state[0] != state_of(path)[0]:
        raise Refused("langgraph.store_changed", path=path)


def refuse_foreign(connection: sqlite3.Connection, path: Path) -> None:
    """Raise Refused if a database does not have the engine's tables."""
    named = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    if not {str(name) for (name,) in named} >= SQLITE_TABLES:
        raise Refused("langgraph.foreign_database", path=path)


def columns_of(connection: sqlite3.Connection, table: str) -> set[str]:
    """Return the names of a table's columns."""
    described = connection.execute(f"SELECT * FROM {table} LIMIT 0").description  # noqa: S608
    return {str(column[0]) for column in described}


def path_of(request: Request) -> Path:
    """Return the store of a request's checkpoint: its location, or the scratch store of an earlier fork."""
    return Path(request["checkpoint"]["source"].rpartition("#")[0])


def address_of(source: Source, request: Request) -> CheckpointKey:
    """Return the checkpoint that a request names. Raises Refused if the store does not have it."""
    key = request["checkpoint"]["source"].rpartition("#")[2]
    for address in source.rows.with_id(key.rpartition("/")[2]):
        if key_of(address) == key:
            return address
    raise Refused("langgraph.checkpoint_deleted", checkpoint=request["checkpoint"]["id"])


def namespace_of(request: Request) -> str:
    """Return the namespace in the key of a request's checkpoint; empty for the thread's own graph."""
    return "/".join(request["checkpoint"]["source"].rpartition("#")[2].split("/")[1:-1])


def key_of(address: CheckpointKey) -> str:
    """Return the key of a checkpoint in its store, as viewer/engines/langgraph/identifiers.py does."""
    return "/".join(part for part in (address.thread, address.namespace, address.checkpoint_id) if part)


class SqliteSource:
    """A ``Source`` for a SQLite file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.rows = sqlite_rows(connection)

    def body(self, key: CheckpointKey) -> BodyRow | None:
        return self.rows.checkpoint(key)

    def values_at(self, key: CheckpointKey) -> list[LoadedValue]:
        found = self.rows.checkpoint(key)
        if found is None:
            return []
        own = [
            LoadedValue(found.kind or None, found.body, "the checkpoint"),
            LoadedValue("json", found.metadata, "its metadata"),
        ]
        return [*own, *_written(self.rows, key, found.parent_id)]


def sqlite_rows(connection: sqlite3.Connection) -> SqliteRows:
    """Return the rows of a file that has the engine's tables."""
    if sqlite3.sqlite_version_info < HAS_OCTET_LENGTH:
        connection.create_function("octet_length", 1, octet_length, deterministic=True)

    def query(statement: str, *values: Any) -> sqlite3.Cursor:
        return connection.execute(statement, values)

    return SqliteRows(query, columns_of(connection, "writes"))


def octet_length(value: Any) -> int | None:
    """Return what SQLite's function of this name returns: the size of a value, or of its text, in bytes."""
    if value is None:
        return None
    return len(value) if isinstance(value, bytes) else len(str(value).encode())


class PostgresqlSource:
    """A ``Source`` for a PostgreSQL database."""

    def __init__(self, connection: Any) -> None:
        columns = {table: database_columns(connection, table) for table in postgresql.TABLES}
        names = {**postgresql.expressions_for(columns), **{table: table for table in postgresql.TABLES}}

        def query(statement: str, *values: Any) -> list[tuple[Any, ...]]:
            return opening.rows_of(connection, statement.format(**names), *values)

        self.rows = postgresql.PostgresqlRows(query, has_last_only=has_last_only(connection))

    def body(self, key: CheckpointKey) -> BodyRow | None:
        """Return the checkpoint with all its values, none of which is loaded; None if there is none."""
        found = self._found(key)
        if found is None:
            return None
        parent, checkpoint, metadata = found
        values = dict(checkpoint.get("channel_values") or {})
        for channel, kind, _size, blob in self.rows.blobs(key, checkpoint.get("channel_versions") or {}):
            values[channel] = _inert(channel, kind, blob)
        if SENDS in checkpoint:
            sent = self.rows.sends(key._replace(checkpoint_id=parent))
            checkpoint[SENDS] = [_inert(TASKS, kind, blob) for kind, _size, blob in sent]
        body = packed({**checkpoint, "channel_values": values})
        return BodyRow(parent, "msgpack", len(body), body, metadata)

    def values_at(self, key: CheckpointKey) -> list[LoadedValue]:
        found = self._found(key)
        if found is None:
            return []
        parent, checkpoint, metadata = found
        blobs = self.rows.blobs(key, checkpoint.get("channel_versions") or {})
        return [
            LoadedValue("json", metadata, "its metadata"),
            *(LoadedValue(kind, blob, channel) for channel, kind, _size, blob in blobs),
            *_written(self.rows, key, parent),
        ]

    def _found(self, key: CheckpointKey) -> tuple[str, dict[str, Any], bytes] | None:
        """Return the parent, the checkpoint and its metadata; None if there is none."""
        found = self.rows.checkpoint(key)
        if found is None:
            return None
        parent, _size, text = found
        metadata = self.rows.metadata(key.thread, [key[1:]], UNLIMITED)[key[1:]]
        return parent or "", dict(json.loads(text or "{}")), (metadata or "{}").encode()


def _written(rows: Rows, key: CheckpointKey, parent: str) -> list[LoadedValue]:
    """Return the writes that are stored with a checkpoint, and the tasks that its parent sent."""
    before = rows.writes(key._replace(checkpoint_id=parent))
    writes = [*rows.writes(key), *(one for one in before if one.channel == TASKS)]
    return [LoadedValue(one.kind or None, one.value, one.channel) for one in writes]


def parents_in(metadata: Any) -> dict[str, Any]:
    """Return the ids of the checkpoints of the outer namespaces, by namespace; empty if none are recorded."""
    try:
        found = json.loads(metadata or b"{}").get("parents")
    except (ValueError, AttributeError):
        return {}
    return found if isinstance(found, dict) else {}


@contextmanager
def opened_database(path: object) -> Iterator[PostgresqlSource]:
    """Yield the threads of a database, in one transaction. Raises Refused."""
    with (
        opening.connected(path, read_only=True) as connection,
        opening.refusing(path),
        connection.transaction(),
    ):
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT set_config('statement_timeout', %s, true)", (TIMEOUT_MILLISECONDS,))
        if not has_tables(connection):
            raise Refused("langgraph.foreign_database", path=path)
        yield PostgresqlSource(connection)


def has_tables(connection: Any) -> bool:
    """Return whether the database has the tables of the engine's saver."""
    statement = "SELECT bool_and(to_regclass(name) IS NOT NULL) FROM unnest(%s::text[]) AS name"
    return bool(opening.rows_of(connection, statement, list(postgresql.TABLES))[0][0])


def database_columns(connection: Any, table: str) -> set[str]:
    """Return the names of a table's columns; none if the connection does not find the table."""
    statement = (
        "SELECT attname::text FROM pg_catalog.pg_attribute"
        " WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"
    )
    return {str(name) for (name,) in opening.rows_of(connection, statement, table)}


def has_last_only(connection: Any) -> bool:
    """Return whether a shallow saver made the tables, which have only the newest checkpoint of a thread."""
    return "checkpoint_id" not in database_columns(connection, "checkpoints")


def _inert(channel: str, kind: str, blob: bytes | None) -> Any:
    """Return a stored value without loading what it names. Raises Refused for an unknown type."""
    if kind == "msgpack":
        return unpacked(blob or b"")
    if kind == "null":
        return None
    if kind in ("bytes", "bytearray"):
        return bytes(blob or b"")
    raise Refused("langgraph.value_not_copied", channel=channel, type=kind)


# Not a task: the id with which answers to any waiting task are stored.
NULL_TASK = "00000000-0000-0000-0000-000000000000"


def unfinished_tasks(writes: Iterable[WriteRow]) -> set[str]:
    """Return the tasks that have begun and not finished: they failed, or wait for an answer."""
    everything = list(writes)
    finished = {write.task_id for write in everything if write.index >= 0}
    return {write.task_id for write in everything} - finished - {NULL_TASK}


def waiting_tasks(writes: Iterable[WriteRow]) -> set[str]:
    """Return the tasks that wait for an answer."""
    everything = list(writes)
    asked = {write.task_id for write in everything if write.channel == INTERRUPTS}
    failed = {write.task_id for write in everything if write.channel == ERRORS}
    return asked & unfinished_tasks(everything) - failed


def inner_checkpoints(source: Source, address: CheckpointKey, tasks: set[str]) -> list[CheckpointKey]:
    """Return the last checkpoint of each subgraph that these unfinished tasks of a checkpoint called.

    A subgraph compiled with ``checkpointer=True`` has a namespace without a task. It is included if it has
    unfinished tasks itself.
    """
    latest: dict[str, CheckpointKey] = {}
    for namespace, identifier, metadata in source.rows.inner_checkpoints(address.thread):
        if parents_in(metadata).get(address.namespace) != address.checkpoint_id:
            continue
        inner = CheckpointKey(address.thread, str(namespace), str(identifier))
        _node, has_task, task = inner.namespace.partition("|")[0].rpartition(":")
        if task in tasks if has_task else unfinished_tasks(source.rows.writes(inner)):
            latest[inner.namespace] = inner
    return list(latest.values())


def remembered_checkpoints(source: Source, address: CheckpointKey) -> list[CheckpointKey]:
    """Return the last checkpoint of each subgraph with memory before a checkpoint of the thread's own graph.

    A subgraph compiled with ``checkpointer=True`` begins each time with the state of its last run.
    """
    if address.namespace:
        return []
    latest: dict[str, CheckpointKey] = {}
    for namespace, identifier, _metadata in source.rows.inner_checkpoints(address.thread):
        if ":" not in str(namespace) and str(identifier) < address.checkpoint_id:
            latest[str(namespace)] = CheckpointKey(address.thread, str(namespace), str(identifier))
    return list(latest.values())


def can_replay_memory() -> bool:
    """Return whether a replay begins a subgraph with what it remembered, as since LangGraph 1.1.

    Earlier versions would take its last run for the one that is replayed, and run none of its nodes.
    """
    try:
        return importlib.util.find_spec("langgraph._internal._replay") is not None
    except ModuleNotFoundError:
        return False


def replays_memory(source: Source, address: CheckpointKey, request: Request) -> bool:
    """Return whether a run from a checkpoint begins its subgraphs with what they remember.

    A run with answers continues the subgraphs that wait for them.
    """
    if request["kind"] != "fork" or request.get("answers"):
        return False
    return can_replay_memory() and bool(remembered_checkpoints(source, address))


def continued_checkpoints(
    source: Source, address: CheckpointKey, *, with_memory: bool
) -> list[CheckpointKey]:
    """Return the checkpoints of subgraphs that a run from a checkpoint continues, one for each namespace."""
    found = {one.namespace: one for one in remembered_checkpoints(source, address) if with_memory}
    unfinished = unfinished_tasks(source.rows.writes(address))
    found |= {one.namespace: one for one in inner_checkpoints(source, address, unfinished)}
    return list(found.values())


def values_to_load(source: Source, address: CheckpointKey) -> list[LoadedValue]:
    """Return every stored value that a run from this checkpoint may load."""
    inner = continued_checkpoints(source, address, with_memory=True)
    return [value for one in (address, *inner) for value in source.values_at(one)]


def caller_of(source: Source, inner: CheckpointKey) -> CheckpointKey:
    """Return the checkpoint of the thread's own graph that waits for this subgraph. Raises Refused."""
    for namespace, identifier, metadata in source.rows.inner_checkpoints(inner.thread):
        if (namespace, identifier) == (inner.namespace, inner.checkpoint_id):
            outer = CheckpointKey(inner.thread, "", str(parents_in(metadata).get("") or ""))
            tasks = unfinished_tasks(source.rows.writes(outer)) if outer.checkpoint_id else set()
            if inner in inner_checkpoints(source, outer, tasks):
                return outer
    raise Refused("langgraph.called_by_graph")

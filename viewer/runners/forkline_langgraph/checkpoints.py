"""Reads the checkpoints of a user's store, and finds those that a run continues.

Statements are assembled from texts in this file only: columns differ between versions of the tables.
"""
# ruff: noqa: S608

from __future__ import annotations

import importlib.util
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from forkline_langgraph import opening
from forkline_langgraph.opening import address_of_file, state_of
from forkline_runner.messages import Refused

if TYPE_CHECKING:
    from viewer.host.jobs.request import Request


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
# The channel of the engine's internal writes that start tasks of the next step.
TASKS = "__pregel_tasks"
# The channels of writes that do not finish their task.
ANSWERS, INTERRUPTS, ERRORS = "__resume__", "__interrupt__", "__error__"
SPECIAL = {ANSWERS, INTERRUPTS, ERRORS, "__scheduled__"}
TABLES = {"checkpoints", "writes"}
AT = "WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"


class Address(NamedTuple):
    """One checkpoint: its thread, its namespace (empty for the thread's own graph) and its id."""

    thread: str
    namespace: str
    id: str


@dataclass(frozen=True)
class LoadedValue:
    """A stored value that a run loads. ``what`` describes it to a person."""

    type: str | None
    data: bytes | None
    what: str


class SqliteRow(NamedTuple):
    """A checkpoint in the format of a row in a SQLite store. ``parent`` is empty if it has none."""

    parent: str
    type: str
    checkpoint: bytes
    metadata: bytes


class WriteRow(NamedTuple):
    """A write in the format of a row in a SQLite store. ``idx`` is negative for special writes."""

    task: str
    path: str
    idx: int
    channel: str
    type: str
    value: bytes


class Source(Protocol):
    """The threads of a store, which is only read."""

    def addresses(self, identifier: str) -> list[Address]:
        """Return the checkpoints with this id: a copied thread has the ids of the original."""

    def head_of(self, thread: str) -> str:
        """Return the id of the last checkpoint of a thread; empty if it has none."""

    def parent_of(self, address: Address) -> str:
        """Return the id of a checkpoint's parent; empty if it has none."""

    def row(self, address: Address) -> SqliteRow | None:
        """Return the checkpoint; None if there is none."""

    def write_rows(self, address: Address) -> list[WriteRow]:
        """Return the writes that are stored with a checkpoint, by task and index."""

    def values_at(self, address: Address) -> list[LoadedValue]:
        """Return all values loaded with a checkpoint: its own, its writes, and tasks that its parent sent."""

    def inner(self, thread: str) -> Iterable[tuple[str, str, Any]]:
        """Return the namespace, id and metadata of each checkpoint of a subgraph, oldest first."""


@contextmanager
def opened(path: Path, scratch: Path) -> Iterator[Source]:
    """Yield the threads of a store. ``scratch``: the folder for a copy, if one is needed. Raises Refused."""
    if opening.is_database(path):
        with opened_database(path) as found:
            yield found
        return
    with _file(path, scratch) as file:
        yield SqliteSource(file)


@contextmanager
def _file(path: Path, scratch: Path) -> Iterator[sqlite3.Connection]:
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
    except sqlite3.Error as error:
        raise Refused("langgraph.store_unreadable", path=path, error=error) from error
    finally:
        connected.close()
    # A log that has appeared since is not read.
    if state is not None and state[0] != state_of(path)[0]:
        raise Refused("langgraph.store_changed", path=path)


def refuse_foreign(connection: sqlite3.Connection, path: Path) -> None:
    """Raise Refused if a database does not have the engine's tables."""
    named = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    if not {str(name) for (name,) in named} >= TABLES:
        raise Refused("langgraph.foreign_database", path=path)


def columns_of(connection: sqlite3.Connection, table: str) -> set[str]:
    """Return the names of a table's columns."""
    described = connection.execute(f"SELECT * FROM {table} LIMIT 0").description
    return {str(column[0]) for column in described}


def path_of(request: Request) -> Path:
    """Return the store of a request's checkpoint: its location, or the scratch store of an earlier fork."""
    return Path(request["checkpoint"]["source"].rpartition("#")[0])


def address_of(source: Source, request: Request) -> Address:
    """Return the checkpoint that a request names. Raises Refused if the store does not have it."""
    key = request["checkpoint"]["source"].rpartition("#")[2]
    for address in source.addresses(key.rpartition("/")[2]):
        if key_of(address) == key:
            return address
    raise Refused("langgraph.checkpoint_deleted", checkpoint=request["checkpoint"]["id"])


def namespace_of(request: Request) -> str:
    """Return the namespace in the key of a request's checkpoint; empty for the thread's own graph."""
    return "/".join(request["checkpoint"]["source"].rpartition("#")[2].split("/")[1:-1])


def key_of(address: Address) -> str:
    """Return the key of a checkpoint in its store, as viewer/engines/langgraph/identifiers.py does."""
    return "/".join(part for part in (address.thread, address.namespace, address.id) if part)


class SqliteSource:
    """A ``Source`` for a SQLite file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._path = "task_path" if "task_path" in columns_of(connection, "writes") else "''"

    def addresses(self, identifier: str) -> list[Address]:
        rows = self._connection.execute(
            "SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints WHERE checkpoint_id = ?",
            (identifier,),
        )
        return [Address(*map(str, row)) for row in rows]

    def head_of(self, thread: str) -> str:
        rows = self._connection.execute(
            "SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ''", (thread,)
        )
        return str(rows.fetchone()[0] or "")

    def parent_of(self, address: Address) -> str:
        found = self._select("parent_checkpoint_id", address).fetchone()
        return str(found[0] or "") if found else ""

    def row(self, address: Address) -> SqliteRow | None:
        found = self._select("parent_checkpoint_id, type, checkpoint, metadata", address).fetchone()
        return SqliteRow(found[0] or "", *found[1:]) if found else None

    def write_rows(self, address: Address) -> list[WriteRow]:
        rows = self._connection.execute(
            f"SELECT task_id, {self._path}, idx, channel, type, value FROM writes {AT} ORDER BY task_id, idx",
            address,
        )
        return [WriteRow(*row) for row in rows]

    def values_at(self, address: Address) -> list[LoadedValue]:
        found = self.row(address)
        if found is None:
            return []
        own = [
            LoadedValue(found.type, found.checkpoint, "the checkpoint"),
            LoadedValue("json", _as_bytes(found.metadata), "its metadata"),
        ]
        before = self.write_rows(address._replace(id=found.parent))
        writes = [*self.write_rows(address), *(row for row in before if row.channel == TASKS)]
        return [*own, *(LoadedValue(row.type, row.value, row.channel) for row in writes)]

    def inner(self, thread: str) -> Iterable[tuple[str, str, Any]]:
        return self._connection.execute(
            "SELECT checkpoint_ns, checkpoint_id, metadata FROM checkpoints"
            " WHERE thread_id = ? AND checkpoint_ns <> '' ORDER BY checkpoint_id",
            (thread,),
        )

    def _select(self, columns: str, address: Address) -> sqlite3.Cursor:
        return self._connection.execute(
            f"SELECT {columns} FROM checkpoints {AT}",
            address,
        )


def _as_bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def parents_in(metadata: Any) -> dict[str, Any]:
    """Return the ids of the checkpoints of the outer namespaces, by namespace; empty if none are recorded."""
    try:
        found = json.loads(metadata or b"{}").get("parents")
    except (ValueError, AttributeError):
        return {}
    return found if isinstance(found, dict) else {}


POSTGRESQL_TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
TIMEOUT_MILLISECONDS = "60000"
EMPTY = "empty"
# Old versions keep sent tasks in a checkpoint. A database has them only in the writes of its parent.
SENDS = "pending_sends"


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
    return bool(opening.rows_of(connection, statement, list(POSTGRESQL_TABLES))[0][0])


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


class PostgresqlSource:
    """A ``Source`` for a PostgreSQL database."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        is_shallow = has_last_only(connection)
        self._id = "(checkpoint ->> 'id')" if is_shallow else "checkpoint_id"
        self._parent = "''" if is_shallow else "coalesce(parent_checkpoint_id, '')"
        self._version = "true" if is_shallow else "version = wanted.wanted_version"
        columns = database_columns(connection, "checkpoint_writes")
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
        return opening.rows_of(self._connection, statement, *values)


def _inert(channel: str, kind: str, blob: bytes) -> Any:
    """Return a stored value without loading what it names. Raises Refused for an unknown type."""
    if kind == "msgpack":
        return unpacked(blob)
    if kind == "null":
        return None
    if kind in ("bytes", "bytearray"):
        return bytes(blob)
    raise Refused("langgraph.value_not_copied", channel=channel, type=kind)


# Not a task: the id with which answers to any waiting task are stored.
NULL_TASK = "00000000-0000-0000-0000-000000000000"


def unfinished_tasks(writes: Sequence[WriteRow]) -> set[str]:
    """Return the tasks that have begun and not finished: they failed, or wait for an answer."""
    finished = {write.task for write in writes if write.idx >= 0}
    return {write.task for write in writes} - finished - {NULL_TASK}


def waiting_tasks(writes: Sequence[WriteRow]) -> set[str]:
    """Return the tasks that wait for an answer."""
    asked = {write.task for write in writes if write.channel == INTERRUPTS}
    failed = {write.task for write in writes if write.channel == ERRORS}
    return asked & unfinished_tasks(writes) - failed


def inner_checkpoints(source: Source, address: Address, tasks: set[str]) -> list[Address]:
    """Return the last checkpoint of each subgraph that these unfinished tasks of a checkpoint called.

    A subgraph compiled with ``checkpointer=True`` has a namespace without a task. It is included if it has
    unfinished tasks itself.
    """
    latest: dict[str, Address] = {}
    for namespace, identifier, metadata in source.inner(address.thread):
        if parents_in(metadata).get(address.namespace) != address.id:
            continue
        inner = Address(address.thread, str(namespace), str(identifier))
        _node, has_task, task = inner.namespace.partition("|")[0].rpartition(":")
        if task in tasks if has_task else unfinished_tasks(source.write_rows(inner)):
            latest[inner.namespace] = inner
    return list(latest.values())


def remembered_checkpoints(source: Source, address: Address) -> list[Address]:
    """Return the last checkpoint of each subgraph with memory before a checkpoint of the thread's own graph.

    A subgraph compiled with ``checkpointer=True`` begins each time with the state of its last run.
    """
    if address.namespace:
        return []
    latest: dict[str, Address] = {}
    for namespace, identifier, _metadata in source.inner(address.thread):
        if ":" not in str(namespace) and str(identifier) < address.id:
            latest[str(namespace)] = Address(address.thread, str(namespace), str(identifier))
    return list(latest.values())


def can_replay_memory() -> bool:
    """Return whether a replay begins a subgraph with what it remembered, as since LangGraph 1.1.

    Earlier versions would take its last run for the one that is replayed, and run none of its nodes.
    """
    try:
        return importlib.util.find_spec("langgraph._internal._replay") is not None
    except ModuleNotFoundError:
        return False


def replays_memory(source: Source, address: Address, request: Request) -> bool:
    """Return whether a run from a checkpoint begins its subgraphs with what they remember.

    A run with answers continues the subgraphs that wait for them.
    """
    if request["kind"] != "fork" or request.get("answers"):
        return False
    return can_replay_memory() and bool(remembered_checkpoints(source, address))


def continued_checkpoints(source: Source, address: Address, *, with_memory: bool) -> list[Address]:
    """Return the checkpoints of subgraphs that a run from a checkpoint continues, one for each namespace."""
    found = {one.namespace: one for one in remembered_checkpoints(source, address) if with_memory}
    unfinished = unfinished_tasks(source.write_rows(address))
    found |= {one.namespace: one for one in inner_checkpoints(source, address, unfinished)}
    return list(found.values())


def values_to_load(source: Source, address: Address) -> list[LoadedValue]:
    """Return every stored value that a run from this checkpoint may load."""
    inner = continued_checkpoints(source, address, with_memory=True)
    return [value for one in (address, *inner) for value in source.values_at(one)]


def caller_of(source: Source, inner: Address) -> Address:
    """Return the checkpoint of the thread's own graph that waits for this subgraph. Raises Refused."""
    for namespace, identifier, metadata in source.inner(inner.thread):
        if (namespace, identifier) == (inner.namespace, inner.id):
            outer = Address(inner.thread, "", str(parents_in(metadata).get("") or ""))
            tasks = unfinished_tasks(source.write_rows(outer)) if outer.id else set()
            if inner in inner_checkpoints(source, outer, tasks):
                return outer
    raise Refused("langgraph.called_by_graph")

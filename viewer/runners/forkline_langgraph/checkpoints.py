"""Reads the checkpoints of a user's store, and finds those that a run continues.

The SQL is that of viewer/engines/langgraph/tables.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from forkline_runner.recorded import own_connection
from forkline_runner.reporting import Refused

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.engines.langgraph.tables import (
        CONTROL,
        TASKS,
        UNLIMITED,
        BodyRow,
        CheckpointKey,
        Key,
        Rows,
        WriteRow,
        postgresql,
    )
    from viewer.engines.langgraph.tables.sqlite import SqliteRows
    from viewer.engines.runner_protocol import Request
else:
    from forkline_tables import (
        CONTROL,
        TASKS,
        UNLIMITED,
        BodyRow,
        CheckpointKey,
        Key,
        Rows,
        WriteRow,
        postgresql,
    )
    from forkline_tables.sqlite import SqliteRows

# Of the tables, what other modules need.
__all__ = ["CONTROL", "TASKS", "CheckpointKey", "Key", "Rows", "SqliteRows", "WriteRow", "postgresql"]

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
# What the engine notes in the metadata of a checkpoint with a ``DeltaChannel``.
DELTA_MARKS = {
    "counters_since_delta_snapshot",
    "counters_since_last_snapshot",
    "delta_updates_since_snapshot",
    "delta_writes_versioned",
}


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
    if is_database(path):
        with in_transaction(path, "REPEATABLE READ", TIMEOUT_MILLISECONDS, read_only=True) as connection:
            yield PostgresqlSource(connection)
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
    key = unescaped(request["checkpoint"]["source"].rpartition("#")[2])
    for address in source.rows.with_id(key.rpartition("/")[2]):
        if key_of(address) == key:
            return address
    raise Refused("langgraph.checkpoint_deleted", checkpoint=request["checkpoint"]["id"])


def unescaped(key: str) -> str:
    """Return the key of a checkpoint from a source (``source_text`` in viewer/models/runs.py)."""
    return key.replace("%23", "#").replace("%25", "%")


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
            return rows_of(connection, statement.format(**names), *values)

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
def in_transaction(path: object, level: str, milliseconds: str, *, read_only: bool = False) -> Iterator[Any]:
    """Yield a connection to a database in a transaction, which is committed unless the block raises.

    ``level`` is its isolation, whatever the default is. Statements have ``milliseconds``. Raises Refused.
    """
    with (
        connected(path, read_only=read_only) as connection,
        refusing(path),
        connection.transaction(),
    ):
        connection.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
        for name in ("lock_timeout", "statement_timeout"):
            connection.execute("SELECT set_config(%s, %s, true)", (name, milliseconds))
        if not has_tables(connection):
            raise Refused("langgraph.foreign_database", path=path)
        yield connection


def has_tables(connection: Any) -> bool:
    """Return whether the database has the tables of the engine's saver."""
    statement = "SELECT bool_and(to_regclass(name) IS NOT NULL) FROM unnest(%s::text[]) AS name"
    return bool(rows_of(connection, statement, list(postgresql.TABLES))[0][0])


def database_columns(connection: Any, table: str) -> set[str]:
    """Return the names of a table's columns; none if the connection does not find the table."""
    statement = (
        "SELECT attname::text FROM pg_catalog.pg_attribute"
        " WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"
    )
    return {str(name) for (name,) in rows_of(connection, statement, table)}


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


# How the store of a location is opened: a PostgreSQL database, or a SQLite file to read it.
#
# The connection of a database is in an environment variable of this process. Its password is in no file and
# no message, and the variable is removed before the project's code runs. psycopg is imported only for a
# database.
#
# Reading a SQLite file neither changes it nor leaves other files next to it. A plain read-only connection to
# a file in WAL mode would create ``-wal`` and ``-shm`` files. How the file is opened therefore depends on the
# files that exist, as in viewer/stores/sqlite_file.py.


# The prefix of the path of a location in PostgreSQL.
PREFIX = "postgresql:"
# Set by the process that starts this one: ``conninfo``, and libpq's variables in ``environment``.
VARIABLE = "FORKLINE_STORE"
CONNECT_TIMEOUT_SECONDS = "10"
SAVER = "langgraph-checkpoint-postgres"
_taken: dict[str, Any] = {}


def refuse_other_location(request: Request) -> None:
    """Raise Refused if the store's path has become a link: the run would read or write elsewhere."""
    path = Path(request["location"]["path"])
    if is_database(path):
        return
    if request["location"]["store_kind"] == "saver":
        # The runner reads a copy of the thread.
        if request["kind"] in ("run", "publish") or (request.get("options") or {}).get("into"):
            raise Refused("saver.no_runs")
        return
    if request["location"]["store_kind"] != "sqlite":
        raise Refused("langgraph.only_sqlite")
    if path.resolve() != path:
        raise Refused("langgraph.location_is_link", path=path, place=path.resolve())


def is_database(path: object) -> bool:
    """Return whether this is the path of a location in PostgreSQL."""
    return str(path).startswith(PREFIX)


def take(reporter: Reporter | None = None) -> None:
    """Remove the connection from the environment, and hide its passwords in all reported events."""
    text = os.environ.pop(VARIABLE, "")
    if not text:
        return
    _taken.update(json.loads(text))
    if reporter is None:
        return
    passwords = [value for name, value in _taken["environment"].items() if "PASSWORD" in name]
    reporter.hide([*passwords, *_password_in(_taken["conninfo"])])


def _password_in(conninfo: str) -> list[str]:
    try:
        from psycopg.conninfo import conninfo_to_dict

        return [str(value) for name, value in conninfo_to_dict(conninfo).items() if "password" in name]
    except Exception:
        # Connecting reports the error. Until then, hide the whole text.
        return [conninfo]


def rows_of(connection: Any, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a statement in a database."""
    from psycopg.rows import tuple_row

    with connection.cursor(row_factory=tuple_row) as cursor:
        found: list[tuple[Any, ...]] = cursor.execute(statement, values).fetchall()
        return found


@contextmanager
def connected(path: object, *, read_only: bool = False) -> Iterator[Any]:
    """Yield a connection in autocommit mode, like those that the engine opens. Raises Refused."""
    try:
        import psycopg
        from psycopg.rows import dict_row
    except ImportError as error:
        raise Refused("langgraph.no_psycopg", package=SAVER) from error
    if not _taken:
        raise Refused("langgraph.no_connection", path=path)
    try:
        with _variables(_taken["environment"]), own_connection():
            connection = psycopg.connect(
                _taken["conninfo"],
                autocommit=True,
                prepare_threshold=None,
                fallback_application_name="forkline",
                row_factory=dict_row,
            )
    except psycopg.Error as error:
        # Without psycopg's message, which names the host and the role.
        raise Refused("langgraph.not_connected", path=path, kind=type(error).__name__) from None
    try:
        connection.read_only = read_only
        yield connection
    finally:
        connection.close()


@contextmanager
def refusing(path: object) -> Iterator[None]:
    """Raise Refused for database errors in the block. Not for runs: nodes may use other databases."""
    import psycopg

    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise Refused("langgraph.store_not_writable", path=path) from error
    except psycopg.Error as error:
        raise Refused("langgraph.database_failed", path=path, error=_reason(error)) from error


def _reason(error: Any) -> str:
    """Return the first line of a server's message, without the rows that it may quote."""
    found = error.diag.message_primary or str(error).partition("\n")[0]
    return str(found)[:200]


@contextmanager
def _variables(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for libpq within the block."""
    former = dict(os.environ)
    os.environ.update({"PGCONNECT_TIMEOUT": CONNECT_TIMEOUT_SECONDS, **variables})
    try:
        yield
    finally:
        for name in os.environ.keys() - former.keys():
            del os.environ[name]
        os.environ.update(former)


# Bytes 18 and 19 of a database's header are the versions of its format: 2 means WAL mode.
WRITE_VERSION, IN_WAL_MODE = slice(18, 20), b"\x02\x02"
# The header of a write-ahead log: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
LOG_HEADER_BYTES, LOG_MAGIC = 32, (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
# How many times a file without a lock is copied because a writer has changed it meanwhile.
MAX_COPIES = 10
# The resolution of a file system's modification times.
CLOCK_TICK_NANOSECONDS = 20_000_000
# The size, times and inode of a file, and of its log; None for a missing one.
State = tuple["tuple[int, int, int, int] | None", ...]


def address_of_file(path: Path, scratch: Path) -> tuple[str, State | None]:
    """Return the URI that SQLite opens, and the state that a file read without a lock must still have.

    The state is None if SQLite locks the file, or opens a copy. ``scratch`` is the folder for a copy. Raises
    Refused and OSError.
    """
    log, index = Path(f"{path}-wal"), Path(f"{path}-shm")
    for _attempt in range(MAX_COPIES):
        with open(path, "rb") as file:
            is_wal = file.read(100)[WRITE_VERSION] == IN_WAL_MODE
        if not is_wal:
            return f"file:{quote(os.fsencode(path))}?mode=ro", None
        if index.exists() and log.exists() and may_have_frames(log):
            return f"file:{quote(os.fsencode(path))}?mode=ro&readonly_shm=1", None
        state = _stable_state(path)
        if not log.exists():
            return f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1", state
        if copy := _copied(path, log, scratch, state):
            return f"file:{quote(os.fsencode(copy))}", None
    raise Refused("langgraph.store_changed", path=path)


def may_have_frames(log: Path) -> bool:
    """Return whether a log may hold frames. Beside an index, SQLite would wait for a writer to begin another.

    viewer/stores/safe_open.py asks the same.
    """
    with open(log, "rb") as file:
        header = file.read(LOG_HEADER_BYTES + 1)
    page_size = int.from_bytes(header[8:12], "big")
    is_page_size = 512 <= page_size <= 65536 and page_size & (page_size - 1) == 0
    return len(header) > LOG_HEADER_BYTES and header[:4] in LOG_MAGIC and is_page_size


def _copied(path: Path, log: Path, scratch: Path, state: State) -> Path | None:
    """Copy a file and its log. Return the copy; None if a writer has changed one of them meanwhile."""
    scratch.mkdir(mode=0o700, exist_ok=True)
    copy = scratch / "source.sqlite"
    with suppress(FileNotFoundError):
        shutil.copyfile(path, copy)
        shutil.copyfile(log, f"{copy}-wal")
    return copy if state == state_of(path) else None


def state_of(path: Path) -> State:
    """Return what differs after a writer has changed the file or its log."""
    found: State = ()
    for end in ("", "-wal"):
        try:
            status = Path(f"{path}{end}").stat()
        except FileNotFoundError:
            found += (None,)
        else:
            found += ((status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino),)
    return found


def _stable_state(path: Path) -> State:
    """Return the current state, once it is so old that a write certainly changes it. Waits up to a second."""
    for _attempt in range(100):
        state = state_of(path)
        newest = max((one[1] for one in state if one), default=0)
        if not 0 <= time.time_ns() - newest < CLOCK_TICK_NANOSECONDS:
            break
        time.sleep(0.01)
    return state

"""Writes to stores with the engine's savers: the checkpoints of a run, and a fork that is published.

The savers of a run report checkpoints, load only what is allowed, and serve async graphs. Those with an
``InertSerializer`` write stored values unchanged, and load none of them.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import sqlite3
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from forkline_langgraph import checkpoints, scratch_store
from forkline_langgraph.checkpoints import (
    CheckpointKey,
    InertObject,
    Rows,
    SqliteRows,
    has_last_only,
    key_of,
    packed,
)
from forkline_runner.reporting import Refused

if TYPE_CHECKING:
    from forkline_langgraph.effects import Loadable
    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_protocol import LocationTarget, Request

SNAPSHOT_CLASS = "_DeltaSnapshot"


class InertValue:
    """A stored value: its type and its bytes."""

    def __init__(self, kind: str, data: bytes) -> None:
        self.kind, self.data = kind, data


class InertCheckpoint(dict[str, Any]):
    """A stored checkpoint. As a dictionary it has only its id, which is all that a saver reads."""

    def __init__(self, identifier: str, kind: str, data: bytes) -> None:
        super().__init__(id=identifier)
        self.kind, self.data = kind, data


class InertSerializer:
    """Writes stored values unchanged. Metadata is plain JSON."""

    def dumps_typed(self, value: Any) -> tuple[str, bytes]:
        """Return the type and bytes of a stored value, or of a value without objects. Raises TypeError."""
        if isinstance(value, InertValue | InertCheckpoint):
            return value.kind, value.data
        if type(value).__name__ == SNAPSHOT_CLASS:
            return "msgpack", packed(value.value)
        if value is None:
            return "null", b""
        return ("bytes", value) if isinstance(value, bytes) else ("msgpack", packed(value))

    def loads_typed(self, data: tuple[str, bytes]) -> InertValue:
        return InertValue(*data)

    def dumps(self, metadata: Any) -> bytes:
        return json.dumps(metadata, ensure_ascii=False).encode("utf-8", "ignore")

    def loads(self, data: bytes) -> Any:
        return json.loads(data)


class CheckedSerializer(JsonPlusSerializer):  # type: ignore[misc]
    """Checks each value before loading it: some versions of the engine call whatever a value names."""

    loadable: Loadable

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return the type and bytes of a value, which may be loaded again."""
        kind, data = super().dumps_typed(obj)
        self.loadable.add_stored(data)
        return kind, data

    def dumps(self, obj: Any) -> bytes:
        """Return metadata in the form of some versions, which may be loaded again."""
        data: bytes = super().dumps(obj)
        self.loadable.add_stored(data)
        return data

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        self.loadable.check(*data)
        return super().loads_typed(data)

    def loads(self, data: bytes) -> Any:
        """Return loaded metadata, which some versions store in a form that can name classes."""
        self.loadable.check("json", data)
        return super().loads(data)


def serializer(loadable: Loadable) -> CheckedSerializer:
    """Return a serializer that loads only what is allowed, in every version of the engine."""
    options: dict[str, Any] = {
        "pickle_fallback": loadable.has_pickles,
        "allowed_msgpack_modules": sorted(loadable.allowed),
    }
    known = inspect.signature(JsonPlusSerializer.__init__).parameters
    made = CheckedSerializer(**{name: value for name, value in options.items() if name in known})
    made.loadable = loadable
    return made


class Reporting:
    """Reports each checkpoint to the spool after it is stored. ``store`` is the path of the location."""

    store: Path
    errors: tuple[type[Exception], ...] = (sqlite3.Error,)
    branch = ""
    reporter: Reporter | None = None

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        try:
            stored = super().put(config, checkpoint, metadata, new_versions)  # type: ignore[misc]
        except self.errors as error:
            if self.reporter:
                self.reporter.write("checkpoint_failed", error=str(error), moved=False)
            raise
        if self.reporter:
            self._report(self.reporter, config["configurable"], checkpoint, metadata)
        return stored

    def _report(self, reporter: Reporter, configurable: Any, checkpoint: Any, metadata: Any) -> None:
        address = CheckpointKey(
            str(configurable["thread_id"]), str(configurable.get("checkpoint_ns") or ""), checkpoint["id"]
        )
        reporter.write(
            "checkpoint",
            id=checkpoint["id"],
            parent=str(configurable.get("checkpoint_id") or ""),
            path=f"{self.store}#{key_of(address)}",
            branch=self.branch,
            trigger=str(metadata.get("source") or ""),
            thread=address.thread,
            namespace=address.namespace,
        )

    async def alist(self, config: Any, **options: Any) -> AsyncIterator[Any]:
        for one in self.list(config, **options):  # type: ignore[attr-defined]
            yield one


class ReportingSaver(Reporting, SqliteSaver):  # type: ignore[misc]
    """Writes to a SQLite file."""


def _awaited(method: str) -> Callable[..., Any]:
    @functools.wraps(getattr(BaseCheckpointSaver, f"a{method}"))
    async def call(self: Any, *arguments: Any, **named: Any) -> Any:
        return getattr(self, method)(*arguments, **named)

    return call


# A graph with async nodes calls these. A store is fast enough to be called in the event loop.
for _name in ("get_tuple", "put", "put_writes", "get_delta_channel_history"):
    if hasattr(BaseCheckpointSaver, f"a{_name}"):
        setattr(Reporting, f"a{_name}", _awaited(_name))


def saver_on(
    connection: sqlite3.Connection, store: Path, loadable: Loadable, reporter: Reporter | None, branch: str
) -> ReportingSaver:
    """Return the saver of a store. Creates the tables that the store lacks."""
    made = ReportingSaver(connection, serde=serializer(loadable))
    made.jsonplus_serde = made.serde
    made.store, made.branch, made.reporter = store, branch, reporter
    made.setup()
    return made


def database_saver(connection: Any, serde: Any) -> Any:
    """Return the engine's own saver for the tables of a database."""
    return _database_saver_class(connection)(connection, serde=serde)


def database_saver_on(
    connection: Any, store: Path, loadable: Loadable, reporter: Reporter, branch: str
) -> Any:
    """Return a reporting saver for a database. Its tables must exist."""
    import psycopg

    class ReportingDatabaseSaver(Reporting, _database_saver_class(connection)):  # type: ignore[misc]
        errors = (psycopg.Error,)

    made = ReportingDatabaseSaver(connection, serde=serializer(loadable))
    made.store, made.branch, made.reporter = store, branch, reporter
    return made


def _database_saver_class(connection: Any) -> Any:
    """Return the engine's class for tables with all checkpoints of a thread, or with only the newest."""
    from langgraph.checkpoint.postgres import PostgresSaver
    from langgraph.checkpoint.postgres.shallow import ShallowPostgresSaver

    return ShallowPostgresSaver if has_last_only(connection) else PostgresSaver


# Publishes a fork from its scratch store to the user's store: as a new thread, or into the thread it forked.
#
# The engine's own saver writes, in one transaction: after a crash, either nothing or everything was written.
# Checkpoints keep their ids, because the ids of tasks are derived from them. Those that the thread already
# has are therefore recognised, and nothing is written twice. No stored value is loaded.


# Publishes into the thread that was forked; anything else makes a new thread.
THREAD = "thread"
# The time limits of a transaction that waits for another writer.
LOCK_SECONDS = 10
TIMEOUT_MILLISECONDS = "10000"


@dataclass(frozen=True)
class ScratchRow:
    """A checkpoint of the scratch store. ``parent`` is empty if it has none."""

    address: CheckpointKey
    parent: str
    checkpoint: InertCheckpoint
    metadata: dict[str, Any]


@dataclass(frozen=True)
class TaskWrites:
    """What one task wrote at a checkpoint, in order."""

    address: CheckpointKey
    task: str
    path: str
    writes: tuple[tuple[str, InertValue], ...]

    @property
    def sends_tasks(self) -> bool:
        return any(channel == checkpoints.TASKS for channel, _value in self.writes)


def _checkpoints_in(rows: SqliteRows, thread: str) -> list[ScratchRow]:
    """Return every checkpoint of a thread, oldest first."""
    keys = [CheckpointKey(thread, *key) for key in rows.keys_after(thread, "")]
    found = []
    for key in sorted(keys, key=attrgetter("checkpoint_id")):
        if row := rows.checkpoint(key):
            checkpoint = InertCheckpoint(key.checkpoint_id, row.kind, row.body or b"")
            found.append(ScratchRow(key, row.parent_id, checkpoint, json.loads(row.metadata or b"{}")))
    return found


def _writes_in(rows: SqliteRows, thread: str) -> list[TaskWrites]:
    """Return the writes of every task of a thread, oldest checkpoint first."""
    keys = {CheckpointKey(thread, namespace, own_id) for namespace, own_id, *_task in rows.tasks(thread)}
    found: dict[tuple[CheckpointKey, str, str], list[tuple[str, InertValue]]] = defaultdict(list)
    for key in sorted(keys, key=attrgetter("checkpoint_id")):
        for one in rows.writes(key):
            value = InertValue(one.kind, one.value or b"")
            found[key, one.task_id, one.task_path].append((one.channel, value))
    return [TaskWrites(*at, tuple(writes)) for at, writes in found.items()]


class WriteStore:
    """A store within a transaction, to which the engine's saver writes stored values unchanged."""

    def __init__(self, saver: Any, rows: Rows) -> None:
        self._saver, self.rows = saver, rows

    def put(self, config: Any, checkpoint: InertCheckpoint, metadata: dict[str, Any]) -> None:
        """Store a checkpoint with the engine's saver. Raises Refused."""
        self._saver.put(config, checkpoint, metadata, {})

    def put_writes(self, config: Any, writes: list[tuple[str, Any]], task: str, path: str) -> None:
        """Store what a task wrote with the engine's saver. Old savers do not accept a task's path."""
        known = inspect.signature(self._saver.put_writes).parameters
        self._saver.put_writes(config, writes, task, *([path] if "task_path" in known else []))


def opened_to_publish(location: LocationTarget) -> Any:
    """Return a context manager that yields the location's store. It commits unless the block raises."""
    if checkpoints.is_database(location["path"]):
        return _database(location["path"])
    return _sqlite(Path(location["path"]))


class OneTransaction(sqlite3.Connection):
    """A connection that ignores the commits of a saver, which commits after each checkpoint."""

    def commit(self) -> None:
        pass

    def commit_all(self) -> None:
        super().commit()


@contextmanager
def _sqlite(path: Path) -> Iterator[WriteStore]:
    if not path.exists():
        raise Refused("langgraph.store_unreadable", path=path, error="no such file")
    if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        raise Refused("langgraph.store_not_writable", path=path)
    file = sqlite3.connect(path, timeout=LOCK_SECONDS, factory=OneTransaction, check_same_thread=False)
    try:
        checkpoints.refuse_foreign(file, path)
        saver = SqliteSaver(file, serde=InertSerializer())
        saver.jsonplus_serde = saver.serde
        # Adds what this version of the engine needs, as any of its runs does.
        saver.setup()
        store = WriteStore(saver, checkpoints.sqlite_rows(file))
        file.execute("BEGIN IMMEDIATE")
        yield store
        file.commit_all()
    except sqlite3.Error as error:
        raise Refused("langgraph.store_write_failed", path=path, error=error) from error
    finally:
        # Without a commit, nothing was written.
        file.close()


@contextmanager
def _database(path: object) -> Iterator[WriteStore]:
    """Yield the database within a transaction, which is committed at the end. Raises Refused."""
    # What was committed before the lock has to be seen after it.
    with checkpoints.in_transaction(path, "READ COMMITTED", TIMEOUT_MILLISECONDS) as connection:
        # No other process continues a thread between the check of its head and the commit.
        connection.execute("LOCK TABLE checkpoints IN SHARE ROW EXCLUSIVE MODE")
        saver = database_saver(connection, InertSerializer())
        yield DatabaseWriteStore(saver, checkpoints.PostgresqlSource(connection).rows)


class DatabaseWriteStore(WriteStore):
    """A ``WriteStore`` in PostgreSQL, whose saver stores each channel's value in a row."""

    def put(self, config: Any, checkpoint: InertCheckpoint, metadata: dict[str, Any]) -> None:
        """Store a checkpoint with the engine's saver, each channel's value unchanged. Raises Refused."""
        if checkpoint.kind != "msgpack":
            raise Refused("langgraph.value_not_copied", channel="the checkpoint", type=checkpoint.kind)
        decoded = checkpoints.unpacked(checkpoint.data)
        values = {name: _for_saver(value) for name, value in decoded["channel_values"].items()}
        whole = {"pending_sends": [], **decoded, "channel_values": values}
        self._saver.put(config, whole, metadata, dict(decoded["channel_versions"]))


def _for_saver(value: Any) -> Any:
    """Return the value, wrapped if it is a snapshot of a channel: savers recognise those by their class."""
    if isinstance(value, InertObject) and value.code == checkpoints.SNAPSHOT:
        from langgraph.checkpoint.serde.types import _DeltaSnapshot

        return _DeltaSnapshot(value)
    return value


@dataclass(frozen=True)
class Fork:
    """The contents of a scratch store. ``stores_changes``: whether checkpoints hold only changes."""

    rows: Sequence[ScratchRow]
    writes: Sequence[TaskWrites]
    stores_changes: bool

    @property
    def thread(self) -> str:
        """The thread that was forked."""
        return self.rows[0].address.thread


def publish(request: Request, scratch: Path, into: str, new_thread: str, reporter: Reporter) -> int:
    """Write the fork of a scratch store. Return the number of written checkpoints.

    It is 0 if the thread has all of them already. Raises Refused before anything is written.
    """
    fork = read_fork(scratch)
    thread = fork.thread if into == THREAD else new_thread
    with opened_to_publish(request["location"]) as store:
        missing = _missing_rows(fork, store, thread, into)
        if missing:
            _write(fork, store, thread, {row.address for row in missing})
    reporter.write("published", thread=thread, into=into, checkpoints=len(missing))
    return len(missing)


def read_fork(path: Path) -> Fork:
    """Return the contents of a scratch store. Raises Refused if it has been deleted."""
    if not path.exists():
        raise Refused("langgraph.scratch_deleted")
    with closing(sqlite3.connect(f"file:{quote(os.fsencode(path))}?mode=ro", uri=True)) as connection:
        rows = checkpoints.sqlite_rows(connection)
        threads = [one.id for one in rows.threads()]
        return Fork(
            [row for thread in threads for row in _checkpoints_in(rows, thread)],
            [writes for thread in threads for writes in _writes_in(rows, thread)],
            scratch_store.has_ancestors(connection),
        )


def _missing_rows(fork: Fork, store: WriteStore, thread: str, into: str) -> list[ScratchRow]:
    """Return the checkpoints that the thread lacks. Raises Refused if they cannot be added to it."""
    existing = set(store.rows.keys_after(thread, ""))
    missing = [row for row in fork.rows if row.address[1:] not in existing]
    if not missing or (into != THREAD and not existing):
        return missing
    if into != THREAD:
        raise Refused("langgraph.thread_exists", thread=thread)
    first = next(row for row in missing if not row.address.namespace)
    if not first.parent or ("", first.parent) not in existing:
        raise Refused("langgraph.thread_lacks_parent")
    if max(identifier for namespace, identifier in existing if not namespace) > first.address.checkpoint_id:
        raise Refused("langgraph.thread_continued")
    if store.rows.has_last_only:
        raise Refused("langgraph.shallow_thread")
    return missing


def _write(fork: Fork, store: WriteStore, thread: str, missing: set[CheckpointKey]) -> None:
    for row in fork.rows:
        if row.address in missing:
            store.put(_config(fork, row, thread), row.checkpoint, _metadata(row, thread))
    for writes in fork.writes:
        at = writes.address._replace(thread=thread)
        if writes.address not in missing and any(one.task_id == writes.task for one in store.rows.writes(at)):
            # Writes that the user's thread already has are never changed.
            if fork.stores_changes or writes.sends_tasks:
                raise Refused("langgraph.writes_differ")
            continue
        _write_task(store, writes, at)
    written = set(store.rows.keys_after(thread, ""))
    if not all(
        (row.address.namespace, row.address.checkpoint_id) in written
        for row in fork.rows
        if row.address in missing
    ):
        raise Refused("langgraph.not_all_written")


def _config(fork: Fork, row: ScratchRow, thread: str) -> dict[str, Any]:
    """Return a saver's config for writing a checkpoint. A parent that a new thread lacks is left out."""
    configurable = {"thread_id": thread, "checkpoint_ns": row.address.namespace}
    parent = row.address._replace(checkpoint_id=row.parent)
    has_parent = parent in {*(one.address for one in fork.rows), *(one.address for one in fork.writes)}
    if row.parent and (has_parent or thread == fork.thread):
        configurable["checkpoint_id"] = row.parent
    return {"configurable": configurable}


def _metadata(row: ScratchRow, thread: str) -> dict[str, Any]:
    """Return the metadata, with the id of the thread that some versions record in it."""
    named = {"thread_id": thread} if row.metadata.get("thread_id") == row.address.thread else {}
    return {**row.metadata, **named}


def _write_task(store: WriteStore, writes: TaskWrites, at: CheckpointKey) -> None:
    configurable = {"thread_id": at.thread, "checkpoint_ns": at.namespace, "checkpoint_id": at.checkpoint_id}
    store.put_writes({"configurable": configurable}, list(writes.writes), writes.task, writes.path)

"""Reads a user's store: a SQLite file here, a database of PostgreSQL in its own package."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from forkline_langgraph.postgresql import connection
from forkline_langgraph.restore.unlocked_file import address_of_file, state_of
from forkline_runner.messages import Refused

if TYPE_CHECKING:
    from viewer.host.jobs.request import Request

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
    if connection.is_database(path):
        from forkline_langgraph.postgresql import source

        with source.opened(path) as found:
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
    described = connection.execute(f"SELECT * FROM {table} LIMIT 0").description  # noqa: S608 - our own names
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
            f"SELECT task_id, {self._path}, idx, channel, type, value FROM writes {AT} ORDER BY task_id, idx",  # noqa: S608
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
            f"SELECT {columns} FROM checkpoints {AT}",  # noqa: S608 - our own names
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

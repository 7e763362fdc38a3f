"""Reads a user's SQLite store without changing its files or leaving any next to them.

A plain read-only connection to a file in WAL mode creates ``-wal`` and ``-shm`` next to it. So how the file
is opened depends on the files that exist, as in viewer/stores/readonly_sqlite.py.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from forkline_runner.refusal import Refused

if TYPE_CHECKING:
    from viewer.jobs.spool import Request

# Bytes 18 and 19 of a database's header say how it is written: 2 is WAL mode.
WRITE_VERSION, IN_WAL_MODE = slice(18, 20), b"\x02\x02"
LOCK_SECONDS = 5
# The channel of the engine's internal writes that start tasks of the next step.
TASKS = "__pregel_tasks"
TABLES = {"checkpoints", "writes"}


@dataclass(frozen=True)
class Address:
    """One checkpoint: its thread, its namespace (empty for the thread's own graph) and its id."""

    thread: str
    namespace: str
    id: str


@dataclass(frozen=True)
class Write:
    """A row of the table ``writes`` without its value. ``idx`` is negative for special writes."""

    task: str
    idx: int
    channel: str


@dataclass(frozen=True)
class Value:
    """A stored value that a run loads, and ``what`` it is for a person."""

    type: str | None
    data: bytes | None
    what: str


@contextmanager
def opened(path: Path, scratch: Path) -> Iterator[sqlite3.Connection]:
    """A connection that only reads. ``scratch`` is a folder for a copy, if one is needed. Raises Refused."""
    try:
        connection = sqlite3.connect(_uri(path, scratch), uri=True, timeout=LOCK_SECONDS)
    except (OSError, sqlite3.Error) as error:
        raise Refused("langgraph.store_unreadable", path=path, error=error) from error
    try:
        refuse_foreign(connection, path)
        yield connection
    except sqlite3.Error as error:
        raise Refused("langgraph.store_unreadable", path=path, error=error) from error
    finally:
        connection.close()


def _uri(path: Path, scratch: Path) -> str:
    with open(path, "rb") as file:
        is_wal = file.read(100)[WRITE_VERSION] == IN_WAL_MODE
    log, index = Path(f"{path}-wal"), Path(f"{path}-shm")
    if not is_wal:
        return f"file:{quote(str(path))}?mode=ro"
    if log.exists() and index.exists():
        return f"file:{quote(str(path))}?mode=ro&readonly_shm=1"
    if not log.exists():
        return f"file:{quote(str(path))}?mode=ro&immutable=1"
    scratch.mkdir(mode=0o700, exist_ok=True)
    copy = scratch / "source.sqlite"
    shutil.copyfile(path, copy)
    shutil.copyfile(log, f"{copy}-wal")
    return f"file:{quote(str(copy))}"


def refuse_foreign(connection: sqlite3.Connection, path: Path) -> None:
    """Raise Refused if a database does not have the engine's tables."""
    named = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    if not {str(name) for (name,) in named} >= TABLES:
        raise Refused("langgraph.foreign_database", path=path)


def path_of(request: Request) -> Path:
    """The store that a request's checkpoint is in: its location, or the scratch store of an earlier fork."""
    return Path(request["checkpoint"]["source"].rpartition("#")[0])


def address_of(connection: sqlite3.Connection, request: Request) -> Address:
    """The checkpoint that a request names. Raises Refused if the store does not have it."""
    key = request["checkpoint"]["source"].rpartition("#")[2]
    found = connection.execute(
        "SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints WHERE checkpoint_id = ?",
        (key.rpartition("/")[2],),
    )
    for row in found:
        address = Address(*map(str, row))
        if key_of(address) == key:
            return address
    raise Refused("langgraph.checkpoint_deleted", checkpoint=request["checkpoint"]["id"])


def key_of(address: Address) -> str:
    """The key of a checkpoint in its store, as viewer/engines/langgraph/format/identifiers.py has it."""
    return "/".join(part for part in (address.thread, address.namespace, address.id) if part)


def head_of(connection: sqlite3.Connection, thread: str) -> str:
    """The id of the last checkpoint of a thread; empty if it has none."""
    rows = connection.execute(
        "SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ''", (thread,)
    )
    return str(rows.fetchone()[0] or "")


def writes_of(connection: sqlite3.Connection, address: Address) -> list[Write]:
    """The writes that are stored with a checkpoint: what its tasks have done so far."""
    rows = connection.execute(
        "SELECT task_id, idx, channel FROM writes"
        " WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? ORDER BY task_id, idx",
        (address.thread, address.namespace, address.id),
    )
    return [Write(str(task), int(idx), str(channel)) for task, idx, channel in rows]


def parent_of(connection: sqlite3.Connection, address: Address) -> str:
    """The id of a checkpoint's parent; empty if it has none."""
    rows = connection.execute(
        "SELECT parent_checkpoint_id FROM checkpoints"
        " WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
        (address.thread, address.namespace, address.id),
    )
    row = rows.fetchone()
    return str(row[0] or "") if row else ""


def values_at(connection: sqlite3.Connection, address: Address) -> list[Value]:
    """Everything that is loaded with a checkpoint: itself, its writes, and its parent's tasks."""
    at = (address.thread, address.namespace, address.id)
    rows = connection.execute(
        "SELECT type, checkpoint, metadata FROM checkpoints"
        " WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
        at,
    )
    found = []
    for kind, data, metadata in rows:
        found += [Value(kind, data, "the checkpoint"), Value("json", _as_bytes(metadata), "its metadata")]
    writes = connection.execute(
        "SELECT type, value, channel FROM writes WHERE thread_id = ? AND checkpoint_ns = ?"
        " AND (checkpoint_id = ? OR checkpoint_id = ? AND channel = ?)",
        (*at, parent_of(connection, address), TASKS),
    )
    return [*found, *(Value(kind, data, str(channel)) for kind, data, channel in writes)]


def inner_checkpoints(connection: sqlite3.Connection, address: Address, tasks: set[str]) -> list[Address]:
    """The last checkpoint of each subgraph that these tasks of a checkpoint called."""
    latest: dict[str, Address] = {}
    rows = connection.execute(
        "SELECT checkpoint_ns, checkpoint_id, metadata FROM checkpoints"
        " WHERE thread_id = ? AND checkpoint_ns <> '' ORDER BY checkpoint_id",
        (address.thread,),
    )
    for namespace, identifier, metadata in rows:
        is_called = str(namespace).partition("|")[0].rpartition(":")[2] in tasks
        if is_called and _parents_in(metadata).get(address.namespace) == address.id:
            latest[str(namespace)] = Address(address.thread, str(namespace), str(identifier))
    return list(latest.values())


def _as_bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _parents_in(metadata: Any) -> dict[str, Any]:
    try:
        found = json.loads(metadata or b"{}").get("parents")
    except (ValueError, AttributeError):
        return {}
    return found if isinstance(found, dict) else {}

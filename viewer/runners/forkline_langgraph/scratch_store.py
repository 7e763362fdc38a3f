"""The scratch store of a fork, and the file for another host: each begins with a copy of one checkpoint.

A fork runs the checkpoint's tasks again, so what they wrote is not copied. Only the questions of unfinished
tasks and the answers that these tasks have received are copied, and the subgraphs that they were in. If a
fork only answers questions, what the finished tasks wrote is copied as well.
"""

from __future__ import annotations

import json
import re
import sqlite3
import tempfile
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from forkline_langgraph import checkpoints
from forkline_langgraph.checkpoints import (
    ANSWERS,
    DELTA_MARKS,
    INTERRUPTS,
    NULL_TASK,
    TASKS,
    CheckpointKey,
    Source,
    WriteRow,
    columns_of,
    continued_checkpoints,
    unfinished_tasks,
)
from forkline_runner.reporting import Refused

# In the job's folder. It remains after the job has ended, because it holds the fork's checkpoints.
STORE = "threads.sqlite"
# The ids under which LangGraph stores changes of channels at the exit (``durability="exit"``).
LATE_TASK = re.compile(r"(0000\d{4}|ffffffff-0000)-[0-9a-f-]+", re.ASCII)
# Exists if the ancestors of the forked checkpoint were copied as well.
ANCESTORS = "forkline_ancestors"


def create_scratch_store(path: Path) -> sqlite3.Connection:
    """Return a connection to a new store that only its owner can read. The engine creates its tables."""
    path.touch(mode=0o600)
    return sqlite3.connect(path, check_same_thread=False)


def fill(
    source: Source,
    target: sqlite3.Connection,
    address: CheckpointKey,
    *,
    with_ancestors: bool,
    with_writes: bool = False,
    with_memory: bool = False,
    edited: str | None = None,
) -> None:
    """Copy a checkpoint and what a fork of it needs. The target must have the tables.

    ``with_ancestors`` is for graphs whose channels store only changes. ``with_writes`` also copies what
    finished tasks wrote, so that they do not run again. ``with_memory`` copies the last state of subgraphs
    that remember it. ``edited`` is the namespace of a state that will be edited, so that its tasks ask again.
    """
    for one in (address, *continued_checkpoints(source, address, with_memory=with_memory)):
        copy_checkpoint(source, target, one)
        rows = list(source.rows.writes(one))
        tasks = unfinished_tasks(rows)
        questions = [row for row in rows if row.task_id in tasks and row.channel in (ANSWERS, INTERRUPTS)]
        if one.namespace != edited:
            # The changes of later steps belong to the source's own next checkpoint.
            own = [row for row in rows if not LATE_TASK.fullmatch(row.task_id) or row.task_id == NULL_TASK]
            _insert_writes(target, one, own if with_writes else questions)
        # Versions before 0.3 read sent tasks from the writes of the parent.
        parent = one._replace(checkpoint_id=source.rows.parent_of(one))
        _insert_writes(target, parent, [row for row in source.rows.writes(parent) if row.channel == TASKS])
    if with_ancestors:
        target.execute(f"CREATE TABLE IF NOT EXISTS {ANCESTORS} (copied INTEGER)")
        _copy_ancestors(source, target, address)
    target.commit()


def stores_changes_only(graph: Any) -> bool:
    """Return whether a channel of the graph stores only its changes in each checkpoint."""
    return any(type(channel).__name__ == "DeltaChannel" for channel in graph.channels.values())


def forget_last_answer(target: sqlite3.Connection) -> None:
    """Delete the last answers that were given to any waiting task. Those who received them have them too.

    Another task that waits would take such an answer for its own.
    """
    target.execute("DELETE FROM writes WHERE task_id = ? AND channel = ?", (NULL_TASK, ANSWERS))
    target.commit()


def has_ancestors(scratch: sqlite3.Connection) -> bool:
    """Return whether a scratch store has ancestors, because its checkpoints hold only changes."""
    named = scratch.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (ANCESTORS,))
    return named.fetchone() is not None


def copy_checkpoint(source: Source, target: sqlite3.Connection, address: CheckpointKey) -> None:
    """Copy a checkpoint without its writes, if the source has it."""
    if row := source.body(address):
        values = {
            "parent_checkpoint_id": row.parent_id or None,
            "type": row.kind or None,
            "checkpoint": row.body,
            "metadata": row.metadata,
        }
        _insert(target, "checkpoints", address, values)


def _insert_writes(target: sqlite3.Connection, address: CheckpointKey, rows: Iterable[WriteRow]) -> None:
    for row in rows:
        values = {
            "task_id": row.task_id,
            "task_path": row.task_path,
            "idx": row.index,
            "channel": row.channel,
            "type": row.kind or None,
            "value": row.value,
        }
        _insert(target, "writes", address, values)


def _copy_ancestors(source: Source, target: sqlite3.Connection, address: CheckpointKey) -> None:
    seen: set[str] = set()
    parent = source.rows.parent_of(address)
    while parent and parent not in seen:
        seen.add(parent)
        one = address._replace(checkpoint_id=parent)
        copy_checkpoint(source, target, one)
        _insert_writes(target, one, source.rows.writes(one))
        parent = source.rows.parent_of(one)


def _insert(target: sqlite3.Connection, table: str, address: CheckpointKey, values: dict[str, Any]) -> None:
    """Insert a row, with only the columns that the target has."""
    key = {
        "thread_id": address.thread,
        "checkpoint_ns": address.namespace,
        "checkpoint_id": address.checkpoint_id,
    }
    known = columns_of(target, table)
    row = {name: value for name, value in (key | values).items() if name in known}
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    target.execute(f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({marks})", list(row.values()))  # noqa: S608


# Writes what a run from a checkpoint needs of its store to a new SQLite file, for another host.
#
# Nothing is loaded, and the store is only read. The checkpoint is copied with its writes, the subgraphs that
# it continues, and its ancestors if a ``DeltaChannel`` stores only changes.


# The tables as the engine's own saver makes them.
TABLES = (
    """
    CREATE TABLE checkpoints (
        thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
        parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB,
        PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
    )
    """,
    """
    CREATE TABLE writes (
        thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
        task_id TEXT NOT NULL, idx INTEGER NOT NULL, channel TEXT NOT NULL, type TEXT, value BLOB,
        PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
    )
    """,
)
_KEYS = (
    "SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints"
    " UNION SELECT thread_id, checkpoint_ns, checkpoint_id FROM writes"
)
# The order in which the engine applies the changes of a ``DeltaChannel``. Old versions have no such column.
TASK_PATH = "ALTER TABLE writes ADD COLUMN task_path TEXT NOT NULL DEFAULT ''"
# The most bytes of the file, and those of a page of SQLite.
MAX_BYTES, PAGE_BYTES = 32 * 1024**2, 4096
SQLITE_FULL = 13


def write_for_other_host(request: Any) -> dict[str, int]:
    """Write the file of a request. Return how many checkpoints it has. Raises Refused."""
    store, target = Path(request["store"]), Path(request["target"])
    asked: Any = {"checkpoint": {"id": request["id"], "source": f"{store}#{request['key']}"}}
    with (
        tempfile.TemporaryDirectory() as scratch,
        closing(sqlite3.connect(target)) as file,
        checkpoints.opened(store, Path(scratch)) as source,
    ):
        for statement in (*TABLES, TASK_PATH):
            file.execute(statement)
        file.execute(f"PRAGMA max_page_count = {MAX_BYTES // PAGE_BYTES}")
        address = checkpoints.address_of(source, asked)
        if address.namespace:
            address = checkpoints.caller_of(source, address)
        try:
            _fill(source, file, address)
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", SQLITE_FULL) == SQLITE_FULL:
                raise Refused("langgraph.too_large_to_send", most=MAX_BYTES // 1024**2) from error
            raise
        return {"checkpoints": len(file.execute(_KEYS).fetchall())}


def _fill(source: Source, file: sqlite3.Connection, address: CheckpointKey) -> None:
    body = source.body(address)
    metadata = json.loads((body and body.metadata) or b"{}")
    # Only an update by a person may lack the mark of changes.
    has_changes = bool(DELTA_MARKS & metadata.keys()) or metadata.get("source") == "update"
    fill(source, file, address, with_ancestors=has_changes, with_writes=True, with_memory=True)
    # What the host does not list as a checkpoint, it could not search for secrets.
    for key in file.execute(_KEYS).fetchall():
        copy_checkpoint(source, file, CheckpointKey(*key))
    file.commit()

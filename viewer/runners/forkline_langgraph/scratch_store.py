"""The scratch store of a fork: a store of our own that begins with a copy of one checkpoint.

A fork runs the checkpoint's tasks again, so what they wrote is not copied. Only the questions of unfinished
tasks and the answers that these tasks have received are copied, and the subgraphs that they were in. If a
fork only answers questions, what the finished tasks wrote is copied as well.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from forkline_langgraph.checkpoints import (
    ANSWERS,
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

# In the job's folder. It remains after the job has ended, because it holds the fork's checkpoints.
STORE = "threads.sqlite"
# The ids under which LangGraph stores changes of channels at the exit (``durability="exit"``).
LATE_TASK = re.compile(r"(0000\d{4}|ffffffff-0000)-[0-9a-f-]+", re.ASCII)
# Exists if the ancestors of the forked checkpoint were copied as well.
ANCESTORS = "forkline_ancestors"


def created(path: Path) -> sqlite3.Connection:
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

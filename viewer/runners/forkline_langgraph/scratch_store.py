"""The scratch store of a fork: a store of our own that begins with a copy of one checkpoint.

The checkpoint's writes are not copied: they are what its tasks did before, and the fork runs the tasks again.
Copied are only the answers that an unfinished task has received before the question that it waits for now,
and the subgraphs in which unfinished tasks are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

from forkline_langgraph import source_store
from forkline_langgraph.source_store import TASKS, Address, Write

# In the job's folder. It is kept when the job has ended: it holds the fork's checkpoints.
STORE = "threads.sqlite"
ANSWERS, INTERRUPTS = "__resume__", "__interrupt__"
# Exists if the ancestors of the forked checkpoint were copied as well.
ANCESTORS = "forkline_ancestors"
# Not a task: the answer that a person gave to whichever task waited.
NULL_TASK = "00000000-0000-0000-0000-000000000000"


def created(path: Path) -> sqlite3.Connection:
    """A connection to a new store that only its owner can read. The engine creates its tables."""
    path.touch(mode=0o600)
    return sqlite3.connect(path, check_same_thread=False)


def fill(
    source: sqlite3.Connection,
    target: sqlite3.Connection,
    address: Address,
    *,
    with_ancestors: bool,
    with_writes: bool = False,
) -> None:
    """Copy a checkpoint, with what a fork of it needs. The tables exist in the target.

    ``with_ancestors`` is for graphs whose channels store only what has changed. ``with_writes`` copies what
    finished tasks wrote as well, so that they do not run again.
    """
    writes = source_store.writes_of(source, address)
    unfinished = unfinished_tasks(writes)
    for one in (address, *source_store.inner_checkpoints(source, address, unfinished)):
        _copy_checkpoint(source, target, one)
        tasks = unfinished_tasks(source_store.writes_of(source, one))
        if with_writes:
            _copy_all_writes(source, target, one)
        else:
            _copy_writes(source, target, one, tasks, (ANSWERS, INTERRUPTS))
        _copy_sends(source, target, one)
    if with_ancestors:
        target.execute(f"CREATE TABLE IF NOT EXISTS {ANCESTORS} (copied INTEGER)")
        _copy_ancestors(source, target, address)
    target.commit()


def has_ancestors(scratch: sqlite3.Connection) -> bool:
    """Whether the checkpoints of a scratch store hold only what differs from those before."""
    named = scratch.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (ANCESTORS,))
    return named.fetchone() is not None


def unfinished_tasks(writes: Sequence[Write]) -> set[str]:
    """The tasks that have begun and not finished: they failed, or wait for an answer."""
    finished = {write.task for write in writes if write.idx >= 0}
    return {write.task for write in writes} - finished - {NULL_TASK}


def _copy_checkpoint(source: sqlite3.Connection, target: sqlite3.Connection, address: Address) -> None:
    _copy(
        source,
        target,
        "checkpoints",
        "thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
        (address.thread, address.namespace, address.id),
    )


def _copy_writes(
    source: sqlite3.Connection,
    target: sqlite3.Connection,
    address: Address,
    tasks: Iterable[str],
    channels: Sequence[str],
) -> None:
    for task in tasks:
        for channel in channels:
            _copy(
                source,
                target,
                "writes",
                "thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? AND task_id = ? AND channel = ?",
                (address.thread, address.namespace, address.id, task, channel),
            )


def _copy_all_writes(source: sqlite3.Connection, target: sqlite3.Connection, address: Address) -> None:
    where = "thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
    _copy(source, target, "writes", where, (address.thread, address.namespace, address.id))


def _copy_sends(source: sqlite3.Connection, target: sqlite3.Connection, address: Address) -> None:
    """Copy the tasks that a checkpoint's parent has sent: versions before 0.3 read them from there."""
    parent = source_store.parent_of(source, address)
    _copy(
        source,
        target,
        "writes",
        "thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? AND channel = ?",
        (address.thread, address.namespace, parent, TASKS),
    )


def _copy_ancestors(source: sqlite3.Connection, target: sqlite3.Connection, address: Address) -> None:
    seen: set[str] = set()
    parent = source_store.parent_of(source, address)
    while parent and parent not in seen:
        seen.add(parent)
        one = Address(address.thread, address.namespace, parent)
        _copy_checkpoint(source, target, one)
        _copy_all_writes(source, target, one)
        parent = source_store.parent_of(source, one)


def _copy(
    source: sqlite3.Connection, target: sqlite3.Connection, table: str, where: str, values: Sequence[str]
) -> None:
    """Copy rows, with the columns that both versions of the table have."""
    columns = [name for name in _columns(source, table) if name in _columns(target, table)]
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    rows = source.execute(f"SELECT {names} FROM {table} WHERE {where}", values)  # noqa: S608 - our own names
    target.executemany(f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({marks})", rows)  # noqa: S608


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    described = connection.execute(f"SELECT * FROM {table} LIMIT 0").description  # noqa: S608 - our own names
    return [str(column[0]) for column in described]

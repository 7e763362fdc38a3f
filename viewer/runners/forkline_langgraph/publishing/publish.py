"""Writes a fork from its scratch store to the user's store: as a new thread, or into the thread it forked.

The engine's own saver writes, in one transaction: after a crash, either nothing or everything was written.
Checkpoints keep their ids, because the ids of tasks are derived from them. Those that the thread already has
are therefore recognised, and nothing is written twice. No stored value is loaded.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forkline_langgraph.publishing import rows as scratch_rows
from forkline_langgraph.publishing.rows import ScratchRow, TaskWrites
from forkline_langgraph.restore import scratch_store
from forkline_langgraph.restore.source_store import Address
from forkline_runner.messages import Refused

if TYPE_CHECKING:
    from forkline_langgraph.publishing.write_store import WriteStore
    from forkline_runner.reporting import Reporter
    from viewer.host.jobs.request import Request

NEW_THREAD, THREAD = "new-thread", "thread"


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
    from forkline_langgraph.publishing import write_store

    fork = read(scratch)
    thread = fork.thread if into == THREAD else new_thread
    with write_store.opened(request["location"]) as store:
        missing = _missing(fork, store, thread, into)
        if missing:
            _write(fork, store, thread, {row.address for row in missing})
    reporter.write("published", thread=thread, into=into, checkpoints=len(missing))
    return len(missing)


def read(path: Path) -> Fork:
    """Return the contents of a scratch store. Raises Refused if it has been deleted."""
    if not path.exists():
        raise Refused("langgraph.scratch_deleted")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        rows, writes = scratch_rows.checkpoints_in(connection), scratch_rows.writes_in(connection)
        return Fork(rows, writes, scratch_store.has_ancestors(connection))


def _missing(fork: Fork, store: WriteStore, thread: str, into: str) -> list[ScratchRow]:
    """Return the checkpoints that the thread lacks. Raises Refused if they cannot be added to it."""
    existing = store.checkpoints(thread)
    missing = [row for row in fork.rows if (row.address.namespace, row.address.id) not in existing]
    if not missing or (into != THREAD and not existing):
        return missing
    if into != THREAD:
        raise Refused("langgraph.thread_exists", thread=thread)
    first = next(row for row in missing if not row.address.namespace)
    if not first.parent or ("", first.parent) not in existing:
        raise Refused("langgraph.thread_lacks_parent")
    if max(identifier for namespace, identifier in existing if not namespace) > first.address.id:
        raise Refused("langgraph.thread_continued")
    if store.has_last_only:
        raise Refused("langgraph.shallow_thread")
    return missing


def _write(fork: Fork, store: WriteStore, thread: str, missing: set[Address]) -> None:
    for row in fork.rows:
        if row.address in missing:
            store.put(_config(fork, row, thread), row.checkpoint, _metadata(row, thread))
    for writes in fork.writes:
        at = writes.address._replace(thread=thread)
        if writes.address not in missing and writes.task in store.tasks_at(at):
            # Writes that the user's thread already has are never changed.
            if fork.stores_changes or writes.sends_tasks:
                raise Refused("langgraph.writes_differ")
            continue
        _write_task(store, writes, at)
    written = store.checkpoints(thread)
    if not all(
        (row.address.namespace, row.address.id) in written for row in fork.rows if row.address in missing
    ):
        raise Refused("langgraph.not_all_written")


def _config(fork: Fork, row: ScratchRow, thread: str) -> dict[str, Any]:
    """Return a saver's config for writing a checkpoint. A parent that a new thread lacks is left out."""
    configurable = {"thread_id": thread, "checkpoint_ns": row.address.namespace}
    parent = row.address._replace(id=row.parent)
    has_parent = parent in {*(one.address for one in fork.rows), *(one.address for one in fork.writes)}
    if row.parent and (has_parent or thread == fork.thread):
        configurable["checkpoint_id"] = row.parent
    return {"configurable": configurable}


def _metadata(row: ScratchRow, thread: str) -> dict[str, Any]:
    """Return the metadata, with the id of the thread that some versions record in it."""
    named = {"thread_id": thread} if row.metadata.get("thread_id") == row.address.thread else {}
    return {**row.metadata, **named}


def _write_task(store: WriteStore, writes: TaskWrites, at: Address) -> None:
    configurable = {"thread_id": at.thread, "checkpoint_ns": at.namespace, "checkpoint_id": at.id}
    store.put_writes({"configurable": configurable}, list(writes.writes), writes.task, writes.path)

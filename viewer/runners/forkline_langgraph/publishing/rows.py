"""The rows of a scratch store, as they are written to the user's store."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from forkline_langgraph.publishing.inert import InertCheckpoint, InertValue
from forkline_langgraph.restore.source_store import TASKS, Address, columns_of


@dataclass(frozen=True)
class ScratchRow:
    """A checkpoint of the scratch store. ``parent`` is empty if it has none."""

    address: Address
    parent: str
    checkpoint: InertCheckpoint
    metadata: dict[str, Any]


@dataclass(frozen=True)
class TaskWrites:
    """What one task wrote at a checkpoint, in order."""

    address: Address
    task: str
    path: str
    writes: tuple[tuple[str, InertValue], ...]

    @property
    def sends_tasks(self) -> bool:
        return any(channel == TASKS for channel, _value in self.writes)


def checkpoints_in(scratch: sqlite3.Connection) -> list[ScratchRow]:
    """Return every checkpoint, oldest first."""
    rows = scratch.execute(
        "SELECT thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata"
        " FROM checkpoints ORDER BY checkpoint_id"
    )
    return [
        ScratchRow(
            Address(thread, namespace, identifier),
            parent or "",
            InertCheckpoint(identifier, kind, data),
            json.loads(metadata or b"{}"),
        )
        for thread, namespace, identifier, parent, kind, data, metadata in rows
    ]


def writes_in(scratch: sqlite3.Connection) -> list[TaskWrites]:
    """Return the writes of every task, oldest checkpoint first."""
    path = "task_path" if "task_path" in columns_of(scratch, "writes") else "''"
    found: dict[tuple[Address, str, str], list[tuple[str, InertValue]]] = defaultdict(list)
    rows = scratch.execute(
        f"SELECT thread_id, checkpoint_ns, checkpoint_id, task_id, {path}, channel, type, value"  # noqa: S608
        " FROM writes ORDER BY checkpoint_id, task_id, idx"
    )
    for thread, namespace, identifier, task, own_path, channel, kind, value in rows:
        at = Address(thread, namespace, identifier), task, own_path
        found[at].append((channel, InertValue(kind, value)))
    return [TaskWrites(*at, tuple(writes)) for at, writes in found.items()]

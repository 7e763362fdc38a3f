"""Databases of LangGraph that are made row by row, so that a row can hold anything."""

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ormsgpack

TABLES = """
    CREATE TABLE checkpoints (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '',
        checkpoint_id TEXT NOT NULL, parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB,
        PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id));
    CREATE TABLE writes (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '',
        checkpoint_id TEXT NOT NULL, task_id TEXT NOT NULL, task_path TEXT NOT NULL DEFAULT '',
        idx INTEGER NOT NULL, channel TEXT NOT NULL, type TEXT, value BLOB,
        PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx));
"""


def checkpoint_id(number: int) -> str:
    """Return a UUID of version 6. A higher number is later."""
    return f"1f1e53d4-{number:04x}-6000-8{number:03x}-{number:012x}"


def packed(values: Mapping[str, Any], **others: Any) -> bytes:
    """Return a checkpoint with these channels as LangGraph encodes it."""
    body = {"v": 4, "ts": "", "id": "", "channel_values": values, "channel_versions": {}, "versions_seen": {}}
    return ormsgpack.packb({**body, **others}, option=ormsgpack.OPT_NON_STR_KEYS)


def extension(code: int, *parts: Any) -> ormsgpack.Ext:
    """Return an object as LangGraph encodes it: the module and name of a class, and what rebuilds it."""
    return ormsgpack.Ext(code, ormsgpack.packb(parts))


class Database:
    """A database to which rows are added."""

    def __init__(self, path: Path, tables: str = TABLES) -> None:
        self.path = path
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.executescript(tables)

    def add(self, number: int, body: Any, kind: str | None = "msgpack", **columns: Any) -> str:
        """Add a checkpoint to ``thread``, after the one with the number before, and return its id."""
        row = {
            "thread_id": "t",
            "checkpoint_ns": "",
            "checkpoint_id": checkpoint_id(number),
            "parent_checkpoint_id": checkpoint_id(number - 1) if number else None,
            "type": kind,
            "checkpoint": body,
            "metadata": json.dumps({"source": "loop", "step": number - 1, "parents": {}}).encode(),
            **columns,
        }
        self._insert("checkpoints", row)
        return str(row["checkpoint_id"])

    def write(
        self, number: int, index: int, channel: str, value: Any, kind: str = "msgpack", **columns: Any
    ) -> None:
        """Add a write of a task after a checkpoint."""
        row = {
            "thread_id": "t",
            "checkpoint_id": checkpoint_id(number),
            "task_id": "task-1",
            "task_path": "~__pregel_pull, node",
            "idx": index,
            "channel": channel,
            "type": kind,
            "value": value,
            **columns,
        }
        self._insert("writes", row)

    def _insert(self, table: str, row: Mapping[str, Any]) -> None:
        names, places = ", ".join(row), ", ".join("?" * len(row))
        self.connection.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", list(row.values()))


def long_thread(path: Path, count: int, others: Mapping[int, int]) -> Path:
    """Write a thread of ``count`` consecutive checkpoints. ``others`` maps further ones to their parents."""
    database = Database(path)
    with database.connection:
        database.connection.execute("BEGIN")
        for number in range(count):
            source = "loop" if number % 3 else "input"
            metadata = f'{{"source": "{source}", "step": {number - 1}}}'.encode()
            database.add(number, packed({"value": number}), metadata=metadata)
            database.write(number, 0, "value", b"\x01")
        for number, parent in others.items():
            database.add(number, packed({}), parent_checkpoint_id=checkpoint_id(parent))
    return path

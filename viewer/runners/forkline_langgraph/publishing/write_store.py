"""The user's store, opened so that the engine's saver writes to it in one transaction."""

from __future__ import annotations

import inspect
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from langgraph.checkpoint.sqlite import SqliteSaver

from forkline_langgraph.postgresql import connection
from forkline_langgraph.publishing.inert import InertCheckpoint, InertSerializer
from forkline_langgraph.restore.source_store import Address, refuse_foreign
from forkline_runner.messages import Refused

if TYPE_CHECKING:
    from viewer.host.jobs.request import LocationTarget

LOCK_SECONDS = 10


class WriteStore(Protocol):
    """A store within a transaction, to which the engine's saver writes stored values unchanged."""

    # Whether the store has only the newest checkpoint of a thread.
    has_last_only: bool

    def checkpoints(self, thread: str) -> set[tuple[str, str]]:
        """Return the namespaces and ids of a thread's checkpoints."""

    def tasks_at(self, address: Address) -> set[str]:
        """Return the tasks that have written something at a checkpoint."""

    def put(self, config: Any, checkpoint: InertCheckpoint, metadata: dict[str, Any]) -> None:
        """Store a checkpoint with the engine's saver. Raises Refused."""

    def put_writes(self, config: Any, writes: list[tuple[str, Any]], task: str, path: str) -> None:
        """Store what a task wrote with the engine's saver."""


def opened(location: LocationTarget) -> Any:
    """Return a context manager that yields the location's store. It commits unless the block raises."""
    if connection.is_database(location["path"]):
        from forkline_langgraph.postgresql import write_store

        return write_store.opened(location["path"])
    return _sqlite(Path(location["path"]))


class OneTransaction(sqlite3.Connection):
    """A connection that ignores the commits of a saver, which commits after each checkpoint."""

    def commit(self) -> None:
        pass

    def commit_all(self) -> None:
        super().commit()


class SqliteWriteStore:
    """A ``WriteStore`` for a SQLite file."""

    has_last_only = False

    def __init__(self, connection: OneTransaction) -> None:
        self._connection = connection
        self.saver = SqliteSaver(connection, serde=InertSerializer())
        self.saver.jsonplus_serde = self.saver.serde

    def checkpoints(self, thread: str) -> set[tuple[str, str]]:
        rows = self._connection.execute(
            "SELECT checkpoint_ns, checkpoint_id FROM checkpoints WHERE thread_id = ?", (thread,)
        )
        return {(str(namespace), str(identifier)) for namespace, identifier in rows}

    def tasks_at(self, address: Address) -> set[str]:
        rows = self._connection.execute(
            "SELECT DISTINCT task_id FROM writes"
            " WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
            address,
        )
        return {str(task) for (task,) in rows}

    def put(self, config: Any, checkpoint: InertCheckpoint, metadata: dict[str, Any]) -> None:
        self.saver.put(config, checkpoint, metadata, {})

    def put_writes(self, config: Any, writes: list[tuple[str, Any]], task: str, path: str) -> None:
        put_writes(self.saver, config, writes, task, path)


def put_writes(saver: Any, config: Any, writes: list[tuple[str, Any]], task: str, path: str) -> None:
    """Store what a task wrote with a saver of any version. Old savers do not accept a task's path."""
    known = inspect.signature(saver.put_writes).parameters
    saver.put_writes(config, writes, task, *([path] if "task_path" in known else []))


@contextmanager
def _sqlite(path: Path) -> Iterator[SqliteWriteStore]:
    if not path.exists():
        raise Refused("langgraph.store_unreadable", path=path, error="no such file")
    if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        raise Refused("langgraph.store_not_writable", path=path)
    file = sqlite3.connect(path, timeout=LOCK_SECONDS, factory=OneTransaction, check_same_thread=False)
    try:
        refuse_foreign(file, path)
        store = SqliteWriteStore(file)
        # Adds what this version of the engine needs, as any of its runs does.
        store.saver.setup()
        file.execute("BEGIN IMMEDIATE")
        yield store
        file.commit_all()
    except sqlite3.Error as error:
        raise Refused("langgraph.store_write_failed", path=path, error=error) from error
    finally:
        # Without a commit, nothing was written.
        file.close()

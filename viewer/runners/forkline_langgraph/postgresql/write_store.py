"""The user's database, opened so that the engine's saver writes to it in one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from forkline_langgraph.postgresql import connection as connections
from forkline_langgraph.postgresql.source import PostgresqlSource, has_last_only, has_tables
from forkline_langgraph.publishing.inert import InertCheckpoint, InertSerializer
from forkline_langgraph.publishing.write_store import put_writes
from forkline_langgraph.restore.inert_values import SNAPSHOT, InertObject, unpacked
from forkline_langgraph.restore.source_store import Address
from forkline_runner.messages import Refused

TIMEOUT_MILLISECONDS = "10000"


@contextmanager
def opened(path: object) -> Iterator[PostgresqlWriteStore]:
    """Yield the database within a transaction, which is committed at the end. Raises Refused."""
    with connections.connected(path) as connection, connections.refusing(path), connection.transaction():
        for name in ("lock_timeout", "statement_timeout"):
            connection.execute("SELECT set_config(%s, %s, true)", (name, TIMEOUT_MILLISECONDS))
        if not has_tables(connection):
            raise Refused("langgraph.foreign_database", path=path)
        # No other process continues a thread between the check of its head and the commit.
        connection.execute("LOCK TABLE checkpoints IN SHARE ROW EXCLUSIVE MODE")
        yield PostgresqlWriteStore(connection)


class PostgresqlWriteStore:
    """A ``WriteStore`` for a PostgreSQL database."""

    def __init__(self, connection: Any) -> None:
        from forkline_langgraph.postgresql.saver import saver_of

        self._source = PostgresqlSource(connection)
        self._saver = saver_of(connection, InertSerializer())
        self.has_last_only = has_last_only(connection)

    def checkpoints(self, thread: str) -> set[tuple[str, str]]:
        return self._source.checkpoints(thread)

    def tasks_at(self, address: Address) -> set[str]:
        return {write.task for write in self._source.write_rows(address)}

    def put(self, config: Any, checkpoint: InertCheckpoint, metadata: dict[str, Any]) -> None:
        """Store a checkpoint with the engine's saver, each channel's value unchanged. Raises Refused."""
        if checkpoint.kind != "msgpack":
            raise Refused("langgraph.value_not_copied", channel="the checkpoint", type=checkpoint.kind)
        decoded = unpacked(checkpoint.data)
        values = {name: _for_saver(value) for name, value in decoded["channel_values"].items()}
        whole = {"pending_sends": [], **decoded, "channel_values": values}
        self._saver.put(config, whole, metadata, dict(decoded["channel_versions"]))

    def put_writes(self, config: Any, writes: list[tuple[str, Any]], task: str, path: str) -> None:
        put_writes(self._saver, config, writes, task, path)


def _for_saver(value: Any) -> Any:
    """Return the value, wrapped if it is a snapshot of a channel: savers recognise those by their class."""
    if isinstance(value, InertObject) and value.code == SNAPSHOT:
        from langgraph.checkpoint.serde.types import _DeltaSnapshot

        return _DeltaSnapshot(value)
    return value

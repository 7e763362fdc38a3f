"""The engine's savers, which report checkpoints, load only what is allowed, and serve async graphs.

Savers with an ``InertSerializer`` write stored values unchanged, and load none of them.
"""

from __future__ import annotations

import functools
import inspect
import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from forkline_langgraph.checkpoints import CheckpointKey, has_last_only, key_of, packed

if TYPE_CHECKING:
    from forkline_langgraph.effects import Loadable
    from forkline_runner.reporting import Reporter

SNAPSHOT_CLASS = "_DeltaSnapshot"


class InertValue:
    """A stored value: its type and its bytes."""

    def __init__(self, kind: str, data: bytes) -> None:
        self.kind, self.data = kind, data


class InertCheckpoint(dict[str, Any]):
    """A stored checkpoint. As a dictionary it has only its id, which is all that a saver reads."""

    def __init__(self, identifier: str, kind: str, data: bytes) -> None:
        super().__init__(id=identifier)
        self.kind, self.data = kind, data


class InertSerializer:
    """Writes stored values unchanged. Metadata is plain JSON."""

    def dumps_typed(self, value: Any) -> tuple[str, bytes]:
        """Return the type and bytes of a stored value, or of a value without objects. Raises TypeError."""
        if isinstance(value, InertValue | InertCheckpoint):
            return value.kind, value.data
        if type(value).__name__ == SNAPSHOT_CLASS:
            return "msgpack", packed(value.value)
        if value is None:
            return "null", b""
        return ("bytes", value) if isinstance(value, bytes) else ("msgpack", packed(value))

    def loads_typed(self, data: tuple[str, bytes]) -> InertValue:
        return InertValue(*data)

    def dumps(self, metadata: Any) -> bytes:
        return json.dumps(metadata, ensure_ascii=False).encode("utf-8", "ignore")

    def loads(self, data: bytes) -> Any:
        return json.loads(data)


class CheckedSerializer(JsonPlusSerializer):  # type: ignore[misc]
    """Checks each value before loading it: some versions of the engine call whatever a value names."""

    loadable: Loadable

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return the type and bytes of a value, which may be loaded again."""
        kind, data = super().dumps_typed(obj)
        self.loadable.add_stored(data)
        return kind, data

    def dumps(self, obj: Any) -> bytes:
        """Return metadata in the form of some versions, which may be loaded again."""
        data: bytes = super().dumps(obj)
        self.loadable.add_stored(data)
        return data

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        self.loadable.check(*data)
        return super().loads_typed(data)

    def loads(self, data: bytes) -> Any:
        """Return loaded metadata, which some versions store in a form that can name classes."""
        self.loadable.check("json", data)
        return super().loads(data)


def serializer(loadable: Loadable) -> CheckedSerializer:
    """Return a serializer that loads only what is allowed, in every version of the engine."""
    options: dict[str, Any] = {
        "pickle_fallback": loadable.has_pickles,
        "allowed_msgpack_modules": sorted(loadable.allowed),
    }
    known = inspect.signature(JsonPlusSerializer.__init__).parameters
    made = CheckedSerializer(**{name: value for name, value in options.items() if name in known})
    made.loadable = loadable
    return made


class Reporting:
    """Reports each checkpoint to the spool after it is stored. ``store`` is the path of the location."""

    store: Path
    errors: tuple[type[Exception], ...] = (sqlite3.Error,)
    branch = ""
    reporter: Reporter | None = None

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        try:
            stored = super().put(config, checkpoint, metadata, new_versions)  # type: ignore[misc]
        except self.errors as error:
            if self.reporter:
                self.reporter.write("checkpoint_failed", error=str(error), moved=False)
            raise
        if self.reporter:
            self._report(self.reporter, config["configurable"], checkpoint, metadata)
        return stored

    def _report(self, reporter: Reporter, configurable: Any, checkpoint: Any, metadata: Any) -> None:
        address = CheckpointKey(
            str(configurable["thread_id"]), str(configurable.get("checkpoint_ns") or ""), checkpoint["id"]
        )
        reporter.write(
            "checkpoint",
            id=checkpoint["id"],
            parent=str(configurable.get("checkpoint_id") or ""),
            path=f"{self.store}#{key_of(address)}",
            branch=self.branch,
            trigger=str(metadata.get("source") or ""),
            thread=address.thread,
            namespace=address.namespace,
        )

    async def alist(self, config: Any, **options: Any) -> AsyncIterator[Any]:
        for one in self.list(config, **options):  # type: ignore[attr-defined]
            yield one


class ReportingSaver(Reporting, SqliteSaver):  # type: ignore[misc]
    """Writes to a SQLite file."""


def _awaited(method: str) -> Callable[..., Any]:
    @functools.wraps(getattr(BaseCheckpointSaver, f"a{method}"))
    async def call(self: Any, *arguments: Any, **named: Any) -> Any:
        return getattr(self, method)(*arguments, **named)

    return call


# A graph with async nodes calls these. A store is fast enough to be called in the event loop.
for _name in ("get_tuple", "put", "put_writes", "get_delta_channel_history"):
    if hasattr(BaseCheckpointSaver, f"a{_name}"):
        setattr(Reporting, f"a{_name}", _awaited(_name))


def saver_on(
    connection: sqlite3.Connection, store: Path, loadable: Loadable, reporter: Reporter | None, branch: str
) -> ReportingSaver:
    """Return the saver of a store. Creates the tables that the store lacks."""
    made = ReportingSaver(connection, serde=serializer(loadable))
    made.jsonplus_serde = made.serde
    made.store, made.branch, made.reporter = store, branch, reporter
    made.setup()
    return made


def database_saver(connection: Any, serde: Any) -> Any:
    """Return the engine's own saver for the tables of a database."""
    return _database_saver_class(connection)(connection, serde=serde)


def database_saver_on(
    connection: Any, store: Path, loadable: Loadable, reporter: Reporter, branch: str
) -> Any:
    """Return a reporting saver for a database. Its tables must exist."""
    import psycopg

    class ReportingDatabaseSaver(Reporting, _database_saver_class(connection)):  # type: ignore[misc]
        errors = (psycopg.Error,)

    made = ReportingDatabaseSaver(connection, serde=serializer(loadable))
    made.store, made.branch, made.reporter = store, branch, reporter
    return made


def _database_saver_class(connection: Any) -> Any:
    """Return the engine's class for tables with all checkpoints of a thread, or with only the newest."""
    from langgraph.checkpoint.postgres import PostgresSaver
    from langgraph.checkpoint.postgres.shallow import ShallowPostgresSaver

    return ShallowPostgresSaver if has_last_only(connection) else PostgresSaver

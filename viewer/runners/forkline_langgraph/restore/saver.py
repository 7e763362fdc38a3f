"""The engine's savers: they report checkpoints, load only what is allowed, and serve async graphs."""

from __future__ import annotations

import functools
import inspect
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from forkline_langgraph.restore.source_store import Address, key_of

if TYPE_CHECKING:
    from forkline_langgraph.restore.effects import Loadable
    from forkline_runner.reporting import Reporter


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
        address = Address(
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

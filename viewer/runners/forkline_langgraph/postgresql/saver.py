"""The engine's PostgreSQL savers: they report checkpoints, and load only what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.shallow import ShallowPostgresSaver

from forkline_langgraph.postgresql.source import has_last_only
from forkline_langgraph.restore.saver import Reporting, serializer

if TYPE_CHECKING:
    from forkline_langgraph.restore.effects import Loadable
    from forkline_runner.reporting import Reporter


class ReportingPostgresSaver(Reporting, PostgresSaver):  # type: ignore[misc]
    """Writes every checkpoint of a thread."""

    errors = (psycopg.Error,)


class ReportingShallowSaver(Reporting, ShallowPostgresSaver):  # type: ignore[misc]
    """Writes only the newest checkpoint of a thread."""

    errors = (psycopg.Error,)


def saver_of(connection: Any, serde: Any) -> Any:
    """Return the engine's own saver for the tables of a database."""
    return (ShallowPostgresSaver if has_last_only(connection) else PostgresSaver)(connection, serde=serde)


def saver_on(connection: Any, store: Path, loadable: Loadable, reporter: Reporter, branch: str) -> Any:
    """Return a reporting saver for a database. Its tables must exist."""
    type_ = ReportingShallowSaver if has_last_only(connection) else ReportingPostgresSaver
    made = type_(connection, serde=serializer(loadable))
    made.store, made.branch, made.reporter = store, branch, reporter
    return made

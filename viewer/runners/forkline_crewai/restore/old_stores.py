"""Writes into a SQLite store of the first engines, in the form that it has."""

from __future__ import annotations

import sqlite3
import uuid
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from crewai.state.provider.sqlite_provider import SqliteProvider

from forkline_crewai.restore import original

INSERT = "INSERT INTO checkpoints (id, created_at, data) VALUES (?, ?, jsonb(?))"


class OldSqliteProvider(SqliteProvider):  # type: ignore[misc]
    """For a table without parents and branches: a checkpoint's own data name both.

    The engine would fail at it, after the model was paid; and to alter the table is not ours.
    """

    def checkpoint(self, data: str, location: str, **lineage: Any) -> str:
        """Add a row, and where it stands. Raises sqlite3.Error."""
        written = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        identifier = f"{written}_{uuid.uuid4().hex[:8]}"
        with closing(sqlite3.connect(location, timeout=30)) as connection, connection:
            connection.execute(INSERT, (identifier, written, data))
        return f"{location}#{identifier}"

    async def acheckpoint(self, data: str, location: str, **lineage: Any) -> str:
        """The same for engines that write asynchronously."""
        return self.checkpoint(data, location)


def is_old(location: str) -> bool:
    """Whether the store's table knows no parents and branches. One that is yet to be made is new."""
    if not Path(location).exists():
        return False
    with original.opened(Path(location)) as connection:
        columns = {row[1] for row in connection.execute("PRAGMA table_info(checkpoints)")}
    return bool(columns) and not columns >= {"parent_id", "branch"}

"""Writes to a SQLite store of CrewAI 1.14.0 and 1.14.1, in its own format."""

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
    """Writes to a table without columns for parents and branches; a checkpoint's data contains them.

    The engine's own provider would fail, after the model calls were paid for. Forkline does not alter the
    table.
    """

    def checkpoint(self, data: str, location: str, **lineage: Any) -> str:
        """Add a row. Return the store's path and the row's id, ``store.db#id``. Raises sqlite3.Error."""
        written = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        identifier = f"{written}_{uuid.uuid4().hex[:8]}"
        with closing(sqlite3.connect(location, timeout=30)) as connection, connection:
            connection.execute(INSERT, (identifier, written, data))
        return f"{location}#{identifier}"

    async def acheckpoint(self, data: str, location: str, **lineage: Any) -> str:
        """Do the same as ``checkpoint``, for engines that write asynchronously."""
        return self.checkpoint(data, location)


def is_old(location: str) -> bool:
    """Return whether the store exists and its table has no columns for parents and branches."""
    if not Path(location).exists():
        return False
    with original.opened(Path(location)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'checkpoints'").fetchone():
            return False
        described = connection.execute("SELECT * FROM checkpoints LIMIT 0").description
    return not {column[0] for column in described} >= {"parent_id", "branch"}

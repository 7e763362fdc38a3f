"""A SQLite store that its user has taken out of WAL mode."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from forkline_crewai import checkpoints


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store with one checkpoint and a rollback journal."""
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE checkpoints (id TEXT, data BLOB)")
        connection.execute("INSERT INTO checkpoints VALUES ('first', 'whole')")
        connection.commit()
    return path


@pytest.fixture
def writer(store: Path) -> Iterator[sqlite3.Connection]:
    """Return a connection that has locked the store to write to it."""
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("UPDATE checkpoints SET data = 'half'")
        yield connection


def contents(store: Path) -> list[tuple[str, str]]:
    with checkpoints.opened(store) as connection:
        found: list[tuple[str, str]] = connection.execute("SELECT id, data FROM checkpoints").fetchall()
    return found


def test_a_store_is_not_read_while_it_is_written(
    store: Path, writer: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "LOCK_SECONDS", 0)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        contents(store)
    writer.execute("ROLLBACK")
    assert contents(store) == [("first", "whole")]


def test_reading_leaves_no_file(store: Path) -> None:
    assert contents(store) == [("first", "whole")]
    assert list(store.parent.iterdir()) == [store]

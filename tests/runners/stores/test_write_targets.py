"""The runner checks that its write target is the one that the person chose."""

import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from forkline_crewai.checkpoints import refuse_other_location
from forkline_runner.reporting import Refused

TABLES = {
    "customers": "CREATE TABLE customers (name)",
    "a view": "CREATE VIEW checkpoints AS SELECT 1",
    "an index": "CREATE TABLE t (a); CREATE INDEX checkpoints ON t (a)",
}


def asked(path: Path, store_kind: str) -> Any:
    return {"location": {"path": str(path), "store_kind": store_kind}}


def test_an_unchanged_or_missing_location_is_accepted(tmp_path: Path) -> None:
    store = tmp_path / "odd #name?.db"
    for path, store_kind in ((tmp_path, "json"), (tmp_path / "new", "json"), (store, "sqlite")):
        refuse_other_location(asked(path, store_kind))
    assert not store.exists()
    store.touch()
    refuse_other_location(asked(store, "sqlite"))
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("CREATE TABLE checkpoints (id, data)")
    refuse_other_location(asked(store, "sqlite"))


@pytest.mark.parametrize("name", TABLES)
def test_another_database_is_refused_and_unchanged(tmp_path: Path, name: str) -> None:
    store = tmp_path / "theirs.db"
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.executescript(TABLES[name])
    before = sha256(store.read_bytes()).hexdigest()
    with pytest.raises(Refused, match="is now a different database"):
        refuse_other_location(asked(store, "sqlite"))
    store.write_bytes(before.encode() * 20)
    with pytest.raises(Refused, match="cannot be read"):
        refuse_other_location(asked(store, "sqlite"))
    assert [path.name for path in tmp_path.iterdir()] == ["theirs.db"]


def test_a_location_that_became_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "cp").symlink_to(tmp_path / "elsewhere")
    for path in (tmp_path / "cp", tmp_path / "cp" / "below"):
        with pytest.raises(Refused, match="now leads to"):
            refuse_other_location(asked(path, "json"))

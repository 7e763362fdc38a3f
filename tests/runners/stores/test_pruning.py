"""Only unchanged checkpoints of the run itself are deleted."""

import sqlite3
from contextlib import closing
from pathlib import Path

from forkline_crewai import checkpoints

TABLE = "CREATE TABLE checkpoints (id TEXT PRIMARY KEY, created_at TEXT NOT NULL, data JSONB NOT NULL)"


def test_an_unchanged_file_is_deleted_and_a_missing_one_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "it's #1 %41 ?mode=ro" / "a_p-none.json"
    path.parent.mkdir()
    path.write_text("{}")
    (path.parent / "b_p-none.json").write_text("{}")
    one = checkpoints.written(str(path), "json")
    assert checkpoints.delete(one, "json") and not path.exists()
    assert checkpoints.delete(one, "json")
    assert [left.name for left in path.parent.iterdir()] == ["b_p-none.json"]


def test_a_replaced_changed_or_linked_file_is_kept(tmp_path: Path) -> None:
    own, others = tmp_path / "a.json", tmp_path / "somebodys.json"
    others.write_text("precious")

    def rewritten() -> None:
        own.write_text("more than it was")

    def replaced() -> None:
        (tmp_path / "new").write_text("{}")
        (tmp_path / "new").replace(own)

    def linked() -> None:
        own.unlink()
        own.symlink_to(others)

    for change in (rewritten, replaced, linked):
        own.unlink(missing_ok=True)
        own.write_text("{}")
        one = checkpoints.written(str(own), "json")
        change()
        assert not checkpoints.delete(one, "json")
        assert own.exists() and others.read_text() == "precious"


def test_files_behind_a_folder_that_became_a_link_are_kept(tmp_path: Path) -> None:
    for folder in ("main", "outside"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.json").write_text("{}")
    one = checkpoints.written(str(tmp_path / "main" / "a.json"), "json")
    (tmp_path / "main").rename(tmp_path / "moved")
    (tmp_path / "main").symlink_to(tmp_path / "outside")
    assert not checkpoints.delete(one, "json")
    assert (tmp_path / "outside" / "a.json").exists() and (tmp_path / "moved" / "a.json").exists()


def test_a_row_is_deleted_only_while_it_is_the_one_that_was_written(tmp_path: Path) -> None:
    store = tmp_path / "odd #name?.db"
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute(TABLE)
        rows = [("mine", "1", b"one"), ("also", "2", b"two"), ("theirs", "3", b"three")]
        connection.executemany("INSERT INTO checkpoints VALUES (?, ?, ?)", rows)
    mine, also = (checkpoints.written(f"{store}#{name}", "sqlite") for name in ("mine", "also"))
    with closing(sqlite3.connect(store)) as connection, connection:
        # Another writer reuses the name, at the same row id.
        connection.execute("UPDATE checkpoints SET data = 'other' WHERE id = 'also'")
    assert checkpoints.delete(mine, "sqlite") and not checkpoints.delete(also, "sqlite")
    with closing(sqlite3.connect(store)) as connection:
        left = connection.execute("SELECT id, CAST(data AS TEXT) FROM checkpoints ORDER BY id").fetchall()
    assert left == [("also", "other"), ("theirs", "three")]
    # Already deleted, row or store: nothing is created again.
    assert checkpoints.delete(mine, "sqlite")
    store.unlink()
    assert checkpoints.delete(also, "sqlite") and not store.exists()

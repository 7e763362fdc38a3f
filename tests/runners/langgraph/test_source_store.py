"""A SQLite store of threads that another program opens while it is read."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from forkline_langgraph import checkpoints, scratch_store
from forkline_runner.reporting import Refused

TABLES = """
    CREATE TABLE checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type,
        checkpoint BLOB, metadata BLOB);
    CREATE TABLE writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, value BLOB);
"""


def add(connection: sqlite3.Connection, identifier: str) -> None:
    """Write a checkpoint of the thread ``t``."""
    row = ("t", "", identifier, None, "msgpack", bytes(5000), b"{}")
    with connection:
        connection.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", row)


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """Return a store with the log of a writer that was killed, which has the second checkpoint."""
    path, left = tmp_path / "writing.db", tmp_path / "threads.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(TABLES)
        add(connection, "1")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        add(connection, "2")
        for end in ("", "-wal"):
            shutil.copyfile(f"{path}{end}", f"{left}{end}")
    return left


def heads(store: Path, scratch: Path) -> str:
    with checkpoints.opened(store, scratch) as source:
        return source.rows.ends("t").newest


@pytest.fixture
def between_copies(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], None]], None]]:
    """Return a function that does something once, after the first file was copied."""
    copyfile, due = shutil.copyfile, list[Callable[[], None]]()

    def copied(*paths: Any) -> Any:
        result = copyfile(*paths)
        while due:
            due.pop()()
        return result

    monkeypatch.setattr(shutil, "copyfile", copied)
    yield due.append


def test_a_log_that_is_moved_into_the_file_while_both_are_copied_loses_nothing(
    killed: Path, tmp_path: Path, between_copies: Callable[[Callable[[], None]], None]
) -> None:
    def write() -> None:
        with closing(sqlite3.connect(killed)) as connection:
            add(connection, "3")

    between_copies(write)
    assert heads(killed, tmp_path / "scratch") == "3"


def test_the_store_of_a_killed_writer_is_read_and_left_alone(killed: Path, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert heads(killed, tmp_path / "scratch") == "2"
    shutil.rmtree(tmp_path / "scratch")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("size", [0, 32])
def test_the_store_of_a_writer_that_was_killed_before_its_first_frame_is_read(
    size: int, killed: Path, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(killed)) as connection:
        add(connection, "3")
    Path(f"{killed}-wal").touch()
    Path(f"{killed}-shm").write_bytes(bytes(32768))
    if size:
        salt = bytes(range(8))
        header = b"\x37\x7f\x06\x82" + (3007000).to_bytes(4, "big") + (4096).to_bytes(4, "big")
        Path(f"{killed}-wal").write_bytes((header + bytes(4) + salt).ljust(size, b"\1"))
    assert heads(killed, tmp_path / "scratch") == "3"


def test_a_file_that_was_written_while_it_was_read_without_a_lock_is_refused(
    killed: Path, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(killed)) as connection:
        add(connection, "3")
    assert not Path(f"{killed}-wal").exists()
    with (
        pytest.raises(Refused) as refused,
        checkpoints.opened(killed, tmp_path) as source,
        closing(sqlite3.connect(killed)) as connection,
    ):
        assert source.rows.ends("t").newest == "3"
        add(connection, "4")
    assert refused.value.message["code"] == "langgraph.store_changed"


def test_a_source_shows_one_state_while_another_program_writes(killed: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(killed)) as connection:
        add(connection, "3")
        with checkpoints.opened(killed, tmp_path) as source:
            assert source.rows.ends("t").newest == "3"
            add(connection, "4")
            assert source.rows.ends("t").newest == "3"
        assert heads(killed, tmp_path) == "4"


def test_a_text_that_is_not_utf8_is_refused_before_anything_runs(tmp_path: Path) -> None:
    store, target = tmp_path / "threads.db", sqlite3.connect(":memory:")
    target.executescript(TABLES)
    with closing(sqlite3.connect(store)) as connection:
        connection.executescript(TABLES)
        add(connection, "1")
        with connection:
            channel = "CAST(X'ff' AS TEXT)"
            connection.execute(f"INSERT INTO writes VALUES ('t', '', '1', 'task', 0, {channel}, 'null', X'')")
    address = checkpoints.CheckpointKey("t", "", "1")
    with pytest.raises(Refused) as refused, checkpoints.opened(store, tmp_path / "scratch") as source:
        scratch_store.fill(source, target, address, with_ancestors=False, with_writes=True)
    assert "store_unreadable" in str(refused.value.message)

"""SQLite stores are read without changing them, with and without a writer."""

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import checkpoint_site  # noqa: F401 - one recent SQLite for the whole process
from tests.real_stores import copy_of, hashes_below
from viewer.host.reading.location_reader import LocationAddress, LocationReader, open_reader
from viewer.stores.protocol import (
    Entry,
    LocationLimitExceeded,
    LocationUnreadable,
    Packed,
    ReadLimits,
    ReadProblem,
)

# A statement that inserts a row with this id and the data of another row.
ONE_MORE = (
    "INSERT INTO checkpoints SELECT '{}', created_at, data FROM checkpoints WHERE id LIKE '2026%' LIMIT 1"
)


@contextmanager
def opened(path: Path, limits: ReadLimits | None = None) -> Iterator[LocationReader]:
    """The store in a reader process: two SQLite libraries in one process release each other's locks."""
    with open_reader(LocationAddress(path.resolve(), limits or ReadLimits())) as store:
        yield store


def read_all(path: Path, limits: ReadLimits | None = None) -> tuple[list[str], dict[str, str]]:
    """The ids that can be read, and the reasons of the rest by key."""
    with opened(path, limits) as store:
        listed = list(store.entries())
        found = [*listed, *store.read_all([item for item in listed if isinstance(item, Entry)], 1)]
    read = [item.snapshot.checkpoint_id for item in found if isinstance(item, Packed)]
    return sorted(read), {item.key: str(item.reason) for item in found if isinstance(item, ReadProblem)}


def edit(path: Path, *statements: str) -> None:
    """Change a store without changing its journal mode."""
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def rows_in_plain_mode(path: Path) -> None:
    edit(path, "PRAGMA journal_mode=DELETE")


@pytest.mark.parametrize("prepare", [lambda path: None, rows_in_plain_mode], ids=["wal", "delete"])
@pytest.mark.parametrize("name", ["cp.db", "a ?#% b.db", "naïve.store"])
def test_reading_leaves_the_file_and_its_folder_as_they_were(
    prepare: Callable[[Path], None], name: str, tmp_path: Path
) -> None:
    path = copy_of("1.14.1/cp.db", tmp_path).rename(tmp_path / name)
    prepare(path)
    before = hashes_below(tmp_path)
    read, problems = read_all(path)
    assert (len(read), problems) == (3, {})
    assert hashes_below(tmp_path) == before


def test_the_log_of_a_killed_writer_is_read_and_stays(tmp_path: Path) -> None:
    path = copy_of("1.14.1/cp.db", tmp_path)
    killed = (
        f"import sqlite3, os; c = sqlite3.connect({str(path)!r});"
        f"c.execute({ONE_MORE.format('20270101T000000_deadbeef')!r});"
        "c.commit(); os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", killed], check=False)
    before = hashes_below(tmp_path)
    assert {f"{path.name}-wal", f"{path.name}-shm"} <= {Path(name).name for name in before}
    assert "20270101T000000_deadbeef" in read_all(path)[0]
    assert hashes_below(tmp_path) == before
    Path(f"{path}-shm").unlink()
    before = hashes_below(tmp_path)
    assert "20270101T000000_deadbeef" in read_all(path)[0]
    assert hashes_below(tmp_path) == before


@pytest.mark.parametrize("has_index", [True, False], ids=["with an index", "without"])
@pytest.mark.parametrize("log", ["0", "31", "32", "33", "other magic", "other page size", "zeros"])
def test_a_log_without_frames_hides_no_row(log: str, has_index: bool, tmp_path: Path) -> None:
    """A writer that is killed before its first frame leaves such a log, and SQLite waits for another one."""
    path = copy_of("1.14.1/cp.db", tmp_path)
    killed = (
        f"import sqlite3, os; c = sqlite3.connect({str(path)!r});"
        f"c.execute({ONE_MORE.format('20270101T000000_deadbeef')!r}); c.commit(); os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", killed], check=False)
    with open(f"{path}-wal", "r+b") as file:
        if log.isdigit():
            file.truncate(int(log))
        else:
            file.seek(8 if log == "other page size" else 0)
            file.write(bytes(64) if log == "zeros" else b"\1")
    if not has_index:
        Path(f"{path}-shm").unlink()
    before = hashes_below(tmp_path)
    began = time.monotonic()
    read, problems = read_all(path)
    assert (len(read), problems) == (3, {})
    assert time.monotonic() - began < 5
    assert hashes_below(tmp_path) == before
    edit(path, ONE_MORE.format("20270101T000000_deadbeef"))
    assert "20270101T000000_deadbeef" in read_all(path)[0]


def test_commits_of_a_live_writer_are_read_without_disturbing_it(tmp_path: Path) -> None:
    path = copy_of("1.14.1/cp.db", tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute(ONE_MORE.format("20270101T000000_aaaaaaaa"))
        files = set(hashes_below(tmp_path))
        assert "20270101T000000_aaaaaaaa" in read_all(path)[0]
        assert set(hashes_below(tmp_path)) == files
        writer.execute("DELETE FROM checkpoints WHERE id = '20270101T000000_aaaaaaaa'")
        assert len(read_all(path)[0]) == 3
    assert set(hashes_below(tmp_path)) == {path.relative_to(tmp_path).as_posix()}


def test_every_committed_row_is_read_while_writers_open_and_close_the_file(tmp_path: Path) -> None:
    path = copy_of("1.14.1/cp.db", tmp_path)
    writing = (
        f"import sqlite3, sys\nfor i, _ in enumerate(sys.stdin):\n"
        f"    c = sqlite3.connect({str(path)!r}, timeout=30)\n"
        "    c.execute('PRAGMA journal_mode=WAL')\n"
        "    c.execute(\"INSERT INTO checkpoints SELECT printf('20270101T000000_%08d', ?), created_at, data"
        ' FROM checkpoints LIMIT 1", (i,))\n    c.commit()\n    c.close()\n'
    )
    with subprocess.Popen([sys.executable, "-c", writing], stdin=subprocess.PIPE, text=True) as writer:
        assert writer.stdin
        for _ in range(30):
            # Two more rows, each through a separate connection, during the read.
            writer.stdin.write("once\nmore\n")
            writer.stdin.flush()
            read, problems = read_all(path)
            assert problems == {}
            assert len(read) >= 3
    assert writer.returncode == 0
    assert len(read_all(path)[0]) == 63


def test_a_read_only_folder_is_read(tmp_path: Path) -> None:
    path = copy_of("1.15.30/cp.db", tmp_path)
    path.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        assert len(read_all(path)[0]) == 1
    finally:
        path.parent.chmod(0o755)


def test_a_broken_row_does_not_affect_the_others(tmp_path: Path) -> None:
    path = copy_of("1.14.1/cp.db", tmp_path)
    edit(
        path,
        "INSERT INTO checkpoints VALUES ('20270101T000000_aaaaaaaa', '', x'ffffffff')",
        "INSERT INTO checkpoints VALUES ('20270101T000000_bbbbbbbb', '', '{\"entities\": [')",
        "INSERT INTO checkpoints VALUES ('20270101T000000_cccccccc', '', '{\"other\": 1}')",
        "INSERT INTO checkpoints VALUES ('20270101T000000_dddddddd', '', 17)",
        "INSERT INTO checkpoints VALUES (NULL, '', x'00')",
    )
    read, problems = read_all(path)
    assert len(read) == 3
    assert set(problems) == {*(f"20270101T000000_{sign * 8}" for sign in "abcd"), "row 8"}
    assert "as JSON" in problems["20270101T000000_aaaaaaaa"]
    assert "not a checkpoint" in problems["20270101T000000_cccccccc"]


def test_rows_written_as_text_are_read(tmp_path: Path) -> None:
    path = copy_of("1.14.1/cp.db", tmp_path)
    edit(path, "UPDATE checkpoints SET data = json(data)")
    assert len(read_all(path)[0]) == 3
    edit(path, "UPDATE checkpoints SET data = CAST(data AS BLOB)")
    assert len(read_all(path)[0]) == 3


def test_damaged_pages_affect_only_their_rows(tmp_path: Path) -> None:
    path = copy_of("1.14.1/cp.db", tmp_path)
    rows_in_plain_mode(path)
    for number in range(40):
        edit(path, ONE_MORE.format(f"20270101T000000_{number:08d}"))
    data = bytearray(path.read_bytes())
    page = 4096
    for at in range(len(data) // 2 // page * page, len(data) // 2 // page * page + 2 * page):
        data[at] = 0xA5
    path.write_bytes(data)
    read, problems = read_all(path)
    assert len(read) >= 0.85 * 43
    assert problems


@pytest.mark.parametrize("column", ["id", "created_at", "parent_id", "branch", "data"])
def test_a_damaged_column_type_affects_no_row(column: str, tmp_path: Path) -> None:
    path = copy_of("1.15.30/cp.db", tmp_path)
    rows_in_plain_mode(path)
    count = len(read_all(path)[0])
    schema = bytearray(path.read_bytes())
    at = schema.index(f"    {column} ".encode()) + len(column) + 6
    schema[at] = 0xCC
    path.write_bytes(schema)
    read, problems = read_all(path)
    assert (len(read), problems) == (count, {}) and count


def test_a_damaged_schema_is_refused_with_a_message(tmp_path: Path) -> None:
    path = copy_of("1.15.30/cp.db", tmp_path)
    rows_in_plain_mode(path)
    path.write_bytes(path.read_bytes().replace(b"NOT NULL", b"NOT \xceULL"))
    with pytest.raises(LocationUnreadable, match="damaged"):
        read_all(path)


def test_an_empty_table_has_a_message(tmp_path: Path) -> None:
    path = copy_of("1.14.1/cp.db", tmp_path)
    edit(path, "DELETE FROM checkpoints")
    read, problems = read_all(path)
    assert read == []
    assert "3.45" in problems["checkpoints"]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW checkpoints AS SELECT 'a' AS id, '{}' AS data",
        "CREATE VIEW checkpoints AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
        " SELECT x AS id, '{}' AS data FROM n",
        "CREATE TABLE checkpoints (name TEXT)",
        "CREATE TABLE others (id TEXT, data TEXT)",
        "CREATE VIRTUAL TABLE checkpoints USING fts5(id, data)",
        "CREATE TABLE checkpoints (id TEXT, data TEXT AS (hex(zeroblob(400000000))) VIRTUAL)",
    ],
)
def test_other_databases_are_refused_with_a_message(statement: str, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    edit(path, statement)
    started = time.monotonic()
    with pytest.raises(LocationUnreadable):
        read_all(path)
    assert time.monotonic() - started < 10


def test_a_slow_query_is_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    many = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 200000)"
    edit(
        path,
        "CREATE TABLE checkpoints (id TEXT, data)",
        f"INSERT INTO checkpoints {many} SELECT x, '{{}}' FROM n",
    )
    started = time.monotonic()
    with pytest.raises(LocationLimitExceeded, match=r"more than 0\.01 s"):
        read_all(path, ReadLimits(max_seconds=0.01))
    assert time.monotonic() - started < 10


def read_or_refused(path: Path) -> None:
    try:
        read, problems = read_all(path, ReadLimits(max_seconds=1))
    except LocationUnreadable as error:
        assert str(error)
    else:
        assert read == [] and problems


def test_a_hot_journal_is_reported_and_not_deleted(tmp_path: Path) -> None:
    path = copy_of("1.14.1/cp.db", tmp_path)
    rows_in_plain_mode(path)
    killed = (
        f"import sqlite3, os; c = sqlite3.connect({str(path)!r}, isolation_level=None);"
        "c.execute('PRAGMA cache_size=1'); c.execute('BEGIN');"
        "c.execute('UPDATE checkpoints SET created_at = hex(zeroblob(9000))');"
        "os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", killed], check=False)
    assert Path(f"{path}-journal").exists()
    before = hashes_below(tmp_path)
    read_or_refused(path)
    assert hashes_below(tmp_path) == before


@pytest.mark.parametrize("mode", ["WAL", "PERSIST"])
def test_reading_as_root_gives_no_file_to_another_user(mode: str, tmp_path: Path) -> None:
    """SQLite would give a log to the owner of the database, and its writer could no longer write."""
    path = copy_of("1.14.1/cp.db", tmp_path)
    killed = (
        f"import sqlite3, os; c = sqlite3.connect({str(path)!r}, isolation_level=None);"
        f"c.execute('PRAGMA journal_mode={mode}');"
        f"c.execute({ONE_MORE.format('20270101T000000_deadbeef')!r}); os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", killed], check=False)
    others = [one for one in path.parent.iterdir() if one.name.startswith(f"{path.name}-")]
    for one in others if os.geteuid() == 0 else ():
        os.chown(one, 4321, 4321)
    before = {one: one.stat() for one in path.parent.iterdir()}
    assert others and "20270101T000000_deadbeef" in read_all(path)[0]
    for one in path.parent.iterdir():
        was, now = before[one], one.stat()
        assert (now.st_uid, now.st_gid, now.st_mode) == (was.st_uid, was.st_gid, was.st_mode)
        assert (now.st_ctime_ns, now.st_mtime_ns) == (was.st_ctime_ns, was.st_mtime_ns)


def test_a_lock_is_waited_for_and_then_reported(tmp_path: Path) -> None:
    path = copy_of("1.14.1/cp.db", tmp_path)
    rows_in_plain_mode(path)
    locking = (
        f"import sqlite3, sys; c = sqlite3.connect({str(path)!r}, isolation_level=None);"
        "c.execute('BEGIN EXCLUSIVE'); print('locked', flush=True); sys.stdin.read()"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", locking], stdin=pipe, stdout=pipe, text=True) as other:
        assert other.stdout and other.stdout.readline()
        with pytest.raises(LocationUnreadable, match="locked") as caught:
            read_all(path, ReadLimits(lock_seconds=0.2))
        assert not isinstance(caught.value, LocationLimitExceeded)
    assert len(read_all(path)[0]) == 3


def test_a_fingerprint_is_computed_without_reading_the_data(tmp_path: Path) -> None:
    path = copy_of("1.14.1/cp.db", tmp_path)

    def marks() -> dict[str, str]:
        with opened(path) as store:
            return {item.key: item.fingerprint for item in store.entries() if isinstance(item, Entry)}

    before = marks()
    assert marks() == before
    edit(path, "UPDATE checkpoints SET data = '{}' WHERE id = (SELECT max(id) FROM checkpoints)")
    after = marks()
    assert {key for key in before if before[key] != after[key]} == {max(before)}
    assert list(path.parent.iterdir()) == [path]

"""Copies of the database are complete and private, and are restored only when it is safe."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.environments import environment_with
from tests.real_stores import copy_of
from tests.set_up.test_data_folder import ROOT, made, manage, refused
from tests.waiting import wait_until
from viewer.data_folder import database_file
from viewer.data_folder.database_file import KEPT
from viewer.data_folder.migrating import version_number
from viewer.messages.message import message_from
from viewer.migrations import RELEASED, UNRELEASED

__all__ = ["made"]
JOB = uuid.uuid4().hex
NAME = "forkline.sqlite3"


@pytest.fixture
def data(backed_up: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(backed_up / "data", tmp_path / "data"))


def insert(database: sqlite3.Connection, table: str, columns: dict[str, Any]) -> None:
    """Add a row. Other columns that need a value are empty."""
    known = list(database.execute(f"PRAGMA table_info({table})"))
    for _number, name, kind, is_needed, default, _key in known:
        if name not in columns and is_needed and default is None:
            columns[name] = 0 if "int" in kind.lower() or kind == "bool" else ""
    marks = ", ".join("?" * len(columns))
    database.execute(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", list(columns.values()))


@pytest.fixture
def copy(backed_up: Path, tmp_path: Path) -> Path:
    """A copy with a queued job and a session in it, next to what else was created."""
    return Path(shutil.copytree(backed_up / "copies", tmp_path / "copies")) / "copy.sqlite3"


@pytest.fixture(scope="module")
def backed_up(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a data folder and the folder of its copy, which tests copy."""
    folder = tmp_path_factory.mktemp("backed_up")
    data = Path(shutil.copytree(made, folder / "data"))
    database = sqlite3.connect(data / NAME, isolation_level=None)
    columns = {
        "id": JOB,
        "idempotency_key": JOB,
        "kind": "fork",
        "location_id": 1,
        "branch": "b",
        "request": json.dumps({"inputs": {"topic": "typed by a person"}, "name": "x"}),
        "plan": "[]",
        "status": "queued",
        "created_at": "2026-01-01",
        "limits": "{}",
        "limit_hit": "{}",
    }
    insert(database, "viewer_job", columns)
    database.execute("INSERT INTO django_session VALUES ('key', 'data', '2099-01-01')")
    database.close()
    (folder / "copies").mkdir()
    copy = folder / "copies/copy.sqlite3"
    assert manage(data, "checkpoints", "backup", str(copy)).returncode == 0
    return folder


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    database = sqlite3.connect(path)
    found = list(database.execute(query))
    database.close()
    return found


def test_a_copy_is_one_private_file_and_overwrites_nothing(data: Path, copy: Path) -> None:
    assert copy.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in copy.parent.glob("copy*")] == ["copy.sqlite3"]
    assert rows(copy, "PRAGMA integrity_check") == [("ok",)]
    assert rows(copy, "PRAGMA journal_mode") == [("delete",)]
    before = copy.read_bytes()
    assert "already exists" in refused(manage(data, "checkpoints", "backup", str(copy)))
    assert copy.read_bytes() == before
    link = copy.with_name("link")
    link.symlink_to(copy.with_name("elsewhere"))
    refused(manage(data, "checkpoints", "backup", str(link)))
    assert not copy.with_name("elsewhere").exists()


def test_a_backup_is_not_written_to_standard_output(data: Path) -> None:
    assert "Name a file" in refused(manage(data, "checkpoints", "backup", "-"))
    assert not (ROOT / "-").exists()


def test_a_failed_backup_leaves_no_file(data: Path, tmp_path: Path) -> None:
    assert "cannot be created" in refused(manage(data, "checkpoints", "backup", str(tmp_path / "no" / "x")))
    (tmp_path / "small").mkdir()
    limit = "trap '' XFSZ; ulimit -f 64"
    ended = manage(data, "checkpoints", "backup", str(tmp_path / "small" / "x"), setup=limit)
    assert "No copy was created" in refused(ended) and not list((tmp_path / "small").iterdir())


def test_an_interrupted_backup_leaves_no_file(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(database_file, "refuse_damaged", interrupted)
    (tmp_path / "new").mkdir()
    with pytest.raises(KeyboardInterrupt):
        database_file.copy_database(data / NAME, tmp_path / "new" / "x")
    assert not list((tmp_path / "new").iterdir())


def test_a_copy_is_complete_while_others_write(data: Path, tmp_path: Path) -> None:
    database = sqlite3.connect(data / NAME, isolation_level=None, check_same_thread=False, timeout=20)
    database.execute("CREATE TABLE pairs (a, b)")
    left = threading.Event()

    def write() -> None:
        number = 0
        while not left.is_set():
            number += 1
            database.execute("BEGIN IMMEDIATE")
            database.execute("INSERT INTO pairs VALUES (?, NULL)", (number,))
            database.execute("UPDATE pairs SET b = a WHERE b IS NULL")
            database.execute("COMMIT")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(3):
            copy = tmp_path / f"{number}.sqlite3"
            assert manage(data, "checkpoints", "backup", str(copy)).returncode == 0
            assert rows(copy, "SELECT count(*) FROM pairs WHERE b IS NOT a") == [(0,)]
            assert rows(copy, "PRAGMA integrity_check") == [("ok",)]
    finally:
        left.set()
        writer.join()
        database.close()


def test_restoring_starts_no_job_and_logs_everybody_out(data: Path, copy: Path, tmp_path: Path) -> None:
    before = rows(copy, "SELECT count(*) FROM viewer_checkpoint")
    store = copy_of("1.15.30/flow", tmp_path / "later")
    manage(data, "import_checkpoints", str(store))
    later = rows(data / NAME, "SELECT count(*) FROM viewer_checkpoint")
    ended = manage(data, "checkpoints", "restore", str(copy), "--json")
    assert ended.returncode == 0, ended.stderr
    assert rows(data / NAME, "SELECT count(*) FROM viewer_checkpoint") == before != later
    ((status, request, error),) = rows(data / NAME, "SELECT status, request, error FROM viewer_job")
    assert status == "interrupted" and "typed by a person" not in str(request)
    assert "Whether it has run since is unknown" in str(message_from(json.loads(str(error))))
    assert rows(data / NAME, "SELECT count(*) FROM django_session") == [(0,)]
    replaced = Path(json.loads(ended.stdout)["replaced"])
    assert rows(replaced, "SELECT count(*) FROM viewer_checkpoint") == later
    assert replaced.stat().st_mode & 0o777 == 0o600
    assert manage(data, "checkpoints", "answer").returncode == 0
    # The copy is unchanged.
    assert rows(copy, "SELECT status FROM viewer_job") == [("queued",)]


def test_what_a_person_typed_is_overwritten(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = sqlite3.connect

    def connected(path: Path) -> sqlite3.Connection:
        # As in most builds of SQLite.
        database = connect(path)
        database.execute("PRAGMA secure_delete=OFF")
        return database

    with closing(sqlite3.connect(copy, isolation_level=None)) as database:
        request = json.dumps({"inputs": {"topic": "typed by a person " * 2000}})
        database.execute("UPDATE viewer_job SET request = ?", [request])
    monkeypatch.setattr(sqlite3, "connect", connected)
    database_file.make_harmless(copy)
    assert b"typed by a person" not in copy.read_bytes()


def test_a_damaged_database_is_replaced_and_the_latest_are_kept(data: Path, copy: Path) -> None:
    for _number in range(KEPT + 1):
        (data / NAME).write_bytes(b"nothing of a database")
        assert manage(data, "checkpoints", "restore", str(copy)).returncode == 0
    assert manage(data, "checkpoints", "answer").returncode == 0
    kept = list((data / "backups").iterdir())
    assert len(kept) == KEPT and all(path.read_bytes() == b"nothing of a database" for path in kept)


def test_the_replaced_database_is_kept_although_the_clock_was_ahead(data: Path, copy: Path) -> None:
    (data / "backups").mkdir(mode=0o700)
    for number in range(KEPT):
        (data / f"backups/forkline-replaced-29990101T00000000000{number}.sqlite3").touch()
    before = (data / NAME).read_bytes()
    ended = manage(data, "checkpoints", "restore", str(copy), "--json")
    assert Path(json.loads(ended.stdout)["replaced"]).read_bytes() == before
    assert len(list((data / "backups").iterdir())) == KEPT


def unfit(copy: Path, how: str) -> Path:
    path = copy.with_name(f"{how}.sqlite3")
    if how == "foreign":
        database = sqlite3.connect(path)
        database.execute("CREATE TABLE checkpoints (id)")
        database.close()
    elif how == "empty":
        path.touch()
    elif how in ("damaged", "newer", "older", "unreleased"):
        shutil.copy(copy, path)
    if how == "damaged":
        whole = path.read_bytes()
        path.write_bytes(whole[:32768] + os.urandom(65536) + whole[98304:])
    if how == "newer":
        database = sqlite3.connect(path, isolation_level=None)
        database.execute("INSERT INTO django_migrations VALUES (9999, 'viewer', '9999_x', '2030-01-01')")
        database.execute(f"PRAGMA user_version = {version_number('9.8.7')}")
        database.close()
    if how in ("older", "unreleased"):
        database = sqlite3.connect(path, isolation_level=None)
        last = (RELEASED if how == "older" else UNRELEASED)[-1:]
        database.execute("DELETE FROM django_migrations WHERE app = 'viewer' AND name = ?", last)
        database.close()
    return path


@pytest.mark.parametrize("how", ["missing", "empty", "foreign", "damaged", "newer", "older", "unreleased"])
def test_an_incomplete_copy_is_refused_and_changes_nothing(data: Path, copy: Path, how: str) -> None:
    before = (data / NAME).read_bytes()
    line = refused(manage(data, "checkpoints", "restore", str(unfit(copy, how))))
    advice = {"older": "Open it once with version 0.1.0", "unreleased": "Restore a copy from version 0.1.0"}
    assert {"newer": "9.8.7", **advice}.get(how, "") in line
    assert (data / NAME).read_bytes() == before
    assert not list((data / "backups").glob("*")) if (data / "backups").exists() else True


@pytest.fixture
def worker(data: Path) -> Iterator["subprocess.Popen[bytes]"]:
    environment = environment_with(data)
    worker = subprocess.Popen([sys.executable, "manage.py", "worker"], cwd=ROOT, env=environment)
    wait_until(lambda: (data / "worker.lock").exists() and (data / "worker.lock").read_text())
    yield worker
    worker.kill()
    worker.wait()


def test_a_database_in_use_is_not_replaced(data: Path, copy: Path, worker: "subprocess.Popen[bytes]") -> None:
    assert "Forkline is running on" in refused(manage(data, "checkpoints", "restore", str(copy)))
    worker.kill()
    worker.wait()
    # The run of a killed worker continues.
    folder = data / "jobs" / str(uuid.uuid4())
    folder.mkdir(parents=True)
    hold = (
        "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.flock(file, fcntl.LOCK_EX);"
        "print(flush=True); input()"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", hold, str(folder / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert run.stdout and run.stdout.readline()
    assert "has not ended" in refused(manage(data, "checkpoints", "restore", str(copy)))
    run.communicate(b"\n")
    assert manage(data, "checkpoints", "restore", str(copy)).returncode == 0


def test_what_is_done_to_the_database_is_in_its_audit_trail(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, copy = tmp_path / "audit.jsonl", tmp_path / "copy.sqlite3"
    monkeypatch.setenv("AUDIT", "1")
    monkeypatch.setenv("AUDIT_FILE", str(lines))
    assert manage(data, "checkpoints", "backup", str(copy)).returncode == 0
    assert manage(data, "checkpoints", "restore", str(copy)).returncode == 0
    with closing(sqlite3.connect(data / NAME)) as database:
        query = "SELECT action, kind, detail, result FROM viewer_auditentry ORDER BY id"
        entries = database.execute(query).fetchall()
    assert entries == [
        ("exported", "database", f"backup {copy}", "done"),
        ("changed", "database", f"restored {copy}", "done"),
    ]
    written = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [(one["action"], one["kind"], one["detail"], one["result"]) for one in written] == entries

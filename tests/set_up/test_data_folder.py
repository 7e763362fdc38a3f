"""An unusable data folder is reported in one line with advice, and never damaged further."""

import json
import shutil
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from django.db import OperationalError, connection

from checkpoint_site import settings
from tests.environments import environment_with
from tests.real_stores import copy_of
from tests.terminal import without_progress
from viewer.data_folder.database_file import KEPT
from viewer.data_folder.failures import failure_text
from viewer.data_folder.migrating import APPLICATION_ID, version_number, version_text

ROOT = Path(__file__).resolve().parent.parent.parent


def manage(folder: Path, *arguments: str, setup: str = "") -> "subprocess.CompletedProcess[str]":
    """Run a command on this data folder, after the shell command ``setup``."""
    environment = environment_with(folder)
    shell = ["bash", "-c", f'{setup}; exec "$@"', "bash"] if setup else []
    call = [*shell, sys.executable, "manage.py", *arguments]
    return subprocess.run(call, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def made(empty_data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data folder with one imported location. Tests copy it."""
    folder = tmp_path_factory.mktemp("made")
    shutil.copytree(empty_data_folder, folder / "data")
    store = copy_of("1.15.30/json", folder)
    assert manage(folder / "data", "import_checkpoints", str(store)).returncode == 0
    return folder / "data"


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "data"))


@pytest.fixture
def database(data: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(data / "forkline.sqlite3", isolation_level=None)
    yield connection
    connection.close()


def refused(ended: "subprocess.CompletedProcess[str]") -> str:
    """Return the single line of a command that failed."""
    *before, line = without_progress(ended.stderr).splitlines()
    assert all(one.startswith("Warning: this runs as root") for one in before), ended
    assert ended.returncode == 1 and line.startswith("CommandError: "), ended
    return line


def listing(data: Path) -> list[str]:
    return ["checkpoints", "list", str(data.parent / "nowhere")]


def test_the_version_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == settings.VERSION
    assert version_text(version_number("12.34.56")) == "12.34.56"


def test_a_database_records_its_application_and_version(database: sqlite3.Connection) -> None:
    assert database.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert database.execute("PRAGMA user_version").fetchone() == (version_number(settings.VERSION),)


def test_a_newer_database_is_refused_by_its_version(data: Path, database: sqlite3.Connection) -> None:
    database.execute(
        "INSERT INTO django_migrations (app, name, applied) VALUES ('viewer', '9999_later', '2030-01-01')"
    )
    database.execute(f"PRAGMA user_version = {version_number('9.8.7')}")
    for arguments in (listing(data), ["worker"], ["up"], ["login_link"], ["import_checkpoints", "/"]):
        line = refused(manage(data, *arguments))
        assert f"was created by Forkline 9.8.7; this is {settings.VERSION}" in line
        assert "viewer.9999_later" in line and str(data / "backups") in line
    document = manage(data, *listing(data), "--json").stdout
    assert "9.8.7" in json.loads(document)["error"]
    # A development version has the number of the one before.
    database.execute(f"PRAGMA user_version = {version_number(settings.VERSION)}")
    assert "was created by a later version of Forkline; this is" in refused(manage(data, *listing(data)))
    database.execute(f"PRAGMA user_version = {version_number('9.8.7')}")
    assert database.execute("PRAGMA user_version").fetchone() == (version_number("9.8.7"),)


@pytest.mark.parametrize(
    "tables", ["CREATE TABLE checkpoints (id)", "CREATE TABLE django_migrations (app, name)"]
)
def test_a_foreign_database_is_refused_and_unchanged(tmp_path: Path, tables: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    path = folder / "forkline.sqlite3"
    other = sqlite3.connect(path)
    other.execute(tables)
    if "migrations" in tables:
        other.execute("INSERT INTO django_migrations VALUES ('shop', '0001_initial')")
    other.commit()
    other.close()
    before = path.read_bytes()
    line = refused(manage(folder, *listing(folder)))
    assert "is a database of another program" in line and "DATA_DIR" in line
    assert path.read_bytes() == before


def test_a_file_that_is_not_a_database_is_refused(data: Path) -> None:
    for side in ("-wal", "-shm"):
        (data / f"forkline.sqlite3{side}").unlink(missing_ok=True)
    (data / "forkline.sqlite3").write_bytes(b"no database at all, but long enough to be one " * 99)
    assert "The database is damaged" in refused(manage(data, *listing(data)))


def test_a_damaged_database_is_reported_with_advice(data: Path) -> None:
    path = data / "forkline.sqlite3"
    whole = path.read_bytes()
    # All pages except the first, which holds the header.
    path.write_bytes(whole[:16384] + b"\x5a" * (len(whole) - 16384))
    line = refused(manage(data, *listing(data)))
    assert "The database is damaged" in line and "checkpoints restore FILE" in line


def test_a_locked_database_is_reported(data: Path, database: sqlite3.Connection) -> None:
    database.execute("BEGIN IMMEDIATE")
    error = OperationalError("database is locked")
    error.__cause__ = sqlite_error("BEGIN IMMEDIATE", data / "forkline.sqlite3")
    assert "Another program has locked the database" in failure_text(error)


def sqlite_error(statement: str, path: Path) -> Exception:
    """Return the error that SQLite raises for this."""
    other = sqlite3.connect(path, timeout=0, isolation_level=None)
    *before, last = statement.split("; ")
    for one in before:
        other.execute(one)
    with pytest.raises(sqlite3.Error) as raised:
        other.execute(last)
    other.close()
    return raised.value


def test_a_full_disk_is_reported(data: Path, tmp_path: Path) -> None:
    store = copy_of("1.15.30/flow", tmp_path / "other")
    # A file size limit: as on a full disk, SQLite cannot extend its log.
    size = (data / "forkline.sqlite3").stat().st_size // 1024
    ended = manage(data, "import_checkpoints", str(store), setup=f"trap '' XFSZ; ulimit -f {size // 8}")
    line = refused(ended)
    assert "Traceback" not in ended.stderr and str(data) in line


def test_a_database_that_cannot_grow_is_reported_as_a_full_disk(data: Path) -> None:
    error = sqlite_error("PRAGMA max_page_count = 1; CREATE TABLE more (x)", data / "forkline.sqlite3")
    assert "No space is left on the disk of" in failure_text(error)
    nowhere_else = OSError(28, "No space left on device")
    assert failure_text(nowhere_else) == failure_text(error)


def test_only_errors_of_the_data_folder_are_reported() -> None:
    elsewhere = PermissionError(13, "Permission denied", "/elsewhere/file")
    ours = PermissionError(13, "Permission denied", str(Path(django_settings.DATA_DIR) / "jobs"))
    assert failure_text(elsewhere) == failure_text(ValueError("x")) == ""
    assert "cannot be written" in failure_text(ours)


def test_an_upgrade_backs_up_the_database_and_keeps_the_latest_copies(
    data: Path, database: sqlite3.Connection
) -> None:
    copies: list[Path] = []
    for _number in range(KEPT + 1):
        # As an earlier version left it, without a column that this one needs.
        database.execute("DROP TABLE django_session")
        database.execute("DELETE FROM django_migrations WHERE app = 'sessions'")
        assert manage(data, "checkpoints", "answer").returncode == 0
        copies = sorted((data / "backups").glob("forkline-before-upgrade-*.sqlite3"))
    assert len(copies) == KEPT and all(path.stat().st_mode & 0o777 == 0o600 for path in copies)
    copy = sqlite3.connect(copies[-1])
    applied = {app for (app,) in copy.execute("SELECT app FROM django_migrations")}
    assert "viewer" in applied and "sessions" not in applied
    assert copy.execute("SELECT count(*) FROM viewer_checkpoint").fetchone()[0] > 0
    copy.close()
    assert manage(data, "checkpoints", "answer").returncode == 0
    assert sorted((data / "backups").iterdir()) == copies


def test_an_upgrade_that_fails_again_and_again_keeps_the_copy_from_before(
    data: Path, database: sqlite3.Connection
) -> None:
    database.execute("DROP TABLE django_session")
    database.execute("DELETE FROM django_migrations WHERE app IN ('sessions', 'usersessions')")
    database.commit()
    for _number in range(KEPT + 2):
        # The first time, one of both is applied before the other one fails: its table is there.
        assert manage(data, "checkpoints", "answer").returncode == 1
    (first,) = (data / "backups").iterdir()
    with closing(sqlite3.connect(first)) as copy:
        applied = {app for (app,) in copy.execute("SELECT app FROM django_migrations")}
        assert "viewer" in applied and "sessions" not in applied
    database.execute("DROP TABLE usersessions_usersession")
    database.commit()
    assert manage(data, "checkpoints", "answer").returncode == 0
    assert first in (data / "backups").iterdir()


def test_a_new_database_is_not_backed_up(data: Path) -> None:
    assert not (data / "backups").exists()


def test_recreating_a_missing_database_is_reported(data: Path) -> None:
    (data / "jobs" / "some-job").mkdir(parents=True)
    for path in data.glob("forkline.sqlite3*"):
        path.unlink()
    assert "A new, empty one was created" in manage(data, "checkpoints", "answer").stderr


def test_a_missing_database_is_not_recreated_while_open(data: Path) -> None:
    script = (
        "import django; django.setup();"
        "from viewer.data_folder import prepare_data_folder; prepare_data_folder();"
        "from django.db import connection; connection.close();"
        "import shutil, pathlib; from django.conf import settings;"
        "[path.unlink() for path in settings.DATA_DIR.glob('forkline*')];"
        "from viewer.models import Location; Location.objects.count()"
    )
    environment = environment_with(data)
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True)
    assert b"OperationalError: unable to open database file" in ended.stderr
    assert not list(data.glob("forkline*"))
    assert connection.vendor == "sqlite"


@pytest.mark.parametrize("limit", [0, 30_000, 300_000])
def test_a_new_data_folder_whose_database_cannot_be_written_leaves_nothing(
    tmp_path: Path, limit: int
) -> None:
    """The system refuses files above a size, as a full disk refuses their growth."""
    code = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (%d, %d));"
    code = code % (limit, limit) + "sys.argv = sys.argv[1:]; runpy.run_path('manage.py', run_name='__main__')"
    command = [sys.executable, "-c", code, "manage.py", "checkpoints", "list", str(tmp_path)]
    for existing, data in ((tmp_path, tmp_path / "new" / "data"), (tmp_path / "old", tmp_path / "old")):
        existing.mkdir(exist_ok=True)
        (existing / "notes.txt").write_text("mine")
        ended = subprocess.run(
            command, cwd=ROOT, env=environment_with(data), capture_output=True, text=True, check=False
        )
        assert ended.returncode != 0 and "Traceback" not in ended.stderr
        assert (existing / "notes.txt").read_text() == "mine"
    assert not (tmp_path / "new").exists()

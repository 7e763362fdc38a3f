"""A new database has the tables that the migrations lead to, and one of an unreleased version is refused."""

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.environments import environment_with
from tests.set_up.contents import names_of, rows_of, schema_of
from viewer.data_folder.migrating import OF_OLDEST, OF_UNRELEASED, REPLACEMENTS, inspected

ROOT = Path(__file__).resolve().parents[2]
DATABASE = "forkline.sqlite3"
INITIAL, UPGRADE = REPLACEMENTS


def manage(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environment_with(folder),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def data(empty_data_folder: Path, tmp_path: Path) -> Path:
    """Return a copy of a new data folder."""
    return Path(shutil.copytree(empty_data_folder, tmp_path / "data"))


def forget(folder: Path, *names: str) -> None:
    """Delete the records of migrations, as in a database that does not have them."""
    with closing(sqlite3.connect(folder / DATABASE)) as connection, connection:
        for name in names:
            connection.execute("DELETE FROM django_migrations WHERE app = 'viewer' AND name = ?", (name,))


def test_the_migrations_lead_to_the_models(empty_data_folder: Path) -> None:
    ended = manage(empty_data_folder, "makemigrations", "--check", "--dry-run")
    assert (ended.returncode, ended.stdout) == (0, "No changes detected\n"), ended


def test_a_new_database_has_every_migration(empty_data_folder: Path) -> None:
    ended = manage(empty_data_folder, "migrate", "--check")
    assert ended.returncode == 0, ended


def test_a_new_database_is_like_one_with_each_migration(empty_data_folder: Path, tmp_path: Path) -> None:
    ended = manage(tmp_path, "migrate")
    assert ended.returncode == 0, ended.stderr
    assert schema_of(tmp_path / DATABASE) == schema_of(empty_data_folder / DATABASE)
    assert names_of(tmp_path / DATABASE) == names_of(empty_data_folder / DATABASE)


def test_a_database_with_every_unreleased_migration_is_up_to_date(data: Path) -> None:
    forget(data, UPGRADE[1])
    before = rows_of(data / DATABASE)
    assert manage(data, "checkpoints", "answer").returncode == 0
    assert rows_of(data / DATABASE) == before and not (data / "backups").exists()
    assert manage(data, "migrate", "--check").returncode == 0
    # Django records the migration that replaces others without applying it.
    assert manage(data, "migrate").returncode == 0
    assert UPGRADE in names_of(data / DATABASE)["migrations"]


@pytest.mark.parametrize("lacking", [["0037_isolation"], ["0037_isolation", "0003_hosts", "0024_roles"]])
def test_a_database_of_an_unreleased_version_is_refused_and_unchanged(data: Path, lacking: list[str]) -> None:
    forget(data, UPGRADE[1], *lacking)
    before = rows_of(data / DATABASE)
    for command in (["checkpoints", "list", str(data)], ["checkpoints", "doctor"], ["worker"]):
        ended = manage(data, *command)
        assert ended.returncode != 0 and "Traceback" not in ended.stderr
        said = [line for line in (ended.stdout + ended.stderr).splitlines() if DATABASE in line]
        assert len(said) == 1 and "Restore a copy from version 0.1.0" in said[0], ended
    assert rows_of(data / DATABASE) == before and not (data / "backups").exists()


def test_only_released_versions_are_upgraded() -> None:
    tables = {"viewer_run"}
    released = inspected("here", tables, set(OF_OLDEST))
    assert UPGRADE in released.unapplied and INITIAL not in released.unapplied
    assert not released.is_older and not released.is_unreleased and not released.unknown
    for one in OF_UNRELEASED:
        assert inspected("here", tables, {*OF_OLDEST, INITIAL, one}).is_unreleased
        assert inspected("here", tables, {*OF_OLDEST, INITIAL, *OF_UNRELEASED - {one}}).is_unreleased
    latest = inspected("here", tables, {*OF_OLDEST, INITIAL, *OF_UNRELEASED})
    assert not latest.is_unreleased and not latest.unknown and UPGRADE not in latest.unapplied
    # Versions before 0.1.0 had a migration of the same name.
    assert inspected("here", tables, {INITIAL}).is_older

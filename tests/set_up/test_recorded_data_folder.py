"""A data folder of the version before opens with every row, and an older one is refused."""

import json
import re
import sqlite3
import subprocess
import sys
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from checkpoint_site import settings
from tests.environments import environment_with
from viewer.data_folder.backups import version_number
from viewer.migrations import REPLACED

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests" / "recorded_data_folder" / "0.1.0.tar.xz"
DATABASE = "forkline.sqlite3"
PREPARE = (
    "import django; django.setup();from viewer.data_folder import prepare_data_folder; prepare_data_folder()"
)
# What the upgrade removes: the second queue, whose entries the rows of jobs replace.
REMOVED = "django_tasks_database"
REMOVED_TABLE = f"{REMOVED}_dbtaskresult"
# The text of an index is stored in tables of its own.
INDEX_TABLES = ("viewer_searchtext_", "sqlite_")
CONSTRAINT = re.compile(r'CONSTRAINT "\w+" (?:CHECK|UNIQUE).*?(?=, CONSTRAINT|\)$)')
Rows = dict[str, list[dict[str, Any]]]


def rows_of(database: Path) -> Rows:
    """Return every row of every table, as JSON can hold it."""
    with closing(sqlite3.connect(database)) as connection:
        connection.row_factory = sqlite3.Row
        names = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        rows = {
            name: [dict(row) for row in connection.execute(f"SELECT rowid, * FROM {name} ORDER BY rowid")]
            for name in names
            if not name.startswith(INDEX_TABLES)
        }
    found: Rows = json.loads(json.dumps(rows, default=repr))
    return found


def unpacked(folder: Path) -> Path:
    with tarfile.open(RECORDED) as archive:
        # As the argument ``filter``, which Python has since 3.11.4.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the recorded data folder that this version has opened."""
    folder = unpacked(tmp_path_factory.mktemp("recorded") / "data")
    run(folder, "-c", PREPARE)
    return folder


def run(folder: Path, *arguments: str, stdin: str = "") -> str:
    """Run Python on this data folder. Return its output."""
    command, environment = [sys.executable, *arguments], environment_with(folder)
    done = subprocess.run(command, cwd=ROOT, env=environment, input=stdin, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    return rows_of(unpacked(tmp_path_factory.mktemp("before") / "data") / DATABASE)


@pytest.fixture(scope="module")
def after(opened: Path) -> Rows:
    return rows_of(opened / DATABASE)


def test_the_recorded_folder_has_rows_of_every_kind(before: Rows, after: Rows) -> None:
    """Only sessions and rights of groups are empty: nobody was logged in when it was recorded."""
    empty = {table for table, rows in before.items() if not rows}
    assert empty == {"django_session", "auth_group_permissions"}
    assert set(before) - set(after) == {REMOVED_TABLE}


def test_every_row_keeps_its_values(before: Rows, after: Rows) -> None:
    removed_types = {row["id"] for row in before["django_content_type"] if row["app_label"] == REMOVED}
    assert len(removed_types) == 1 and len(before[REMOVED_TABLE]) == 1
    for table, rows in before.items():
        expected = rows
        if table == "django_content_type":
            expected = [row for row in rows if row["app_label"] != REMOVED]
        elif table == "auth_permission":
            expected = [row for row in rows if row["content_type_id"] not in removed_types]
        elif table == "django_migrations":
            kept = [row for row in rows if row["app"] != REMOVED]
            assert after[table][: len(kept)] == kept and after[table][len(kept) :]
            continue
        elif table == REMOVED_TABLE:
            continue
        # Later versions have more columns, and the types and rights of more tables.
        columns = list(expected[0]) if expected else []
        found = [{name: row[name] for name in columns} for row in after[table]]
        assert [row for row in found if row in expected] == expected, table
        is_added_to = table in ("django_content_type", "auth_permission")
        assert len(found) == len(expected) or is_added_to, table


def test_locations_and_projects_are_of_the_only_host(after: Rows) -> None:
    (host,) = after["viewer_host"]
    assert (host["name"], host["seen_at"]) == ("default", None)
    for table in ("viewer_location", "viewer_project"):
        assert {row["host_id"] for row in after[table]} == {host["id"]}


def test_who_could_run_is_an_admin_of_all_locations_and_others_are_viewers(after: Rows) -> None:
    may_run = {row["user_id"] for row in after["auth_user_user_permissions"]}
    people = {row["id"] for row in after["auth_user"] if not row["is_superuser"]}
    levels = {row["user_id"]: (row["level"], row["location_id"]) for row in after["viewer_role"]}
    assert may_run and levels == {user: (3 if user in may_run else 1, None) for user in people}


def test_the_files_of_jobs_are_kept(opened: Path) -> None:
    for number in range(1, 8):
        log = opened / "jobs" / str(UUID(int=number)) / "log.txt"
        assert log.read_text() == f"What job {number} printed.\n"


def test_the_database_was_copied_before_its_upgrade(opened: Path, before: Rows) -> None:
    (copy,) = (opened / "backups").glob("forkline-before-upgrade-*.sqlite3")
    assert rows_of(copy) == before


def test_an_upgraded_database_is_like_a_new_one(opened: Path, empty_data_folder: Path) -> None:
    assert schema_of(opened / DATABASE) == schema_of(empty_data_folder / DATABASE)
    assert names_of(opened / DATABASE) == names_of(empty_data_folder / DATABASE)


def schema_of(database: Path) -> dict[str, Any]:
    """Return the columns and constraints of each table, and the other statements of the schema."""
    with closing(sqlite3.connect(database)) as connection:
        made = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
        found: dict[str, Any] = {}
        for name, sql in made.items():
            if not sql.startswith("CREATE TABLE"):
                found[name] = sql
                continue
            # A column that was added later has another position.
            columns = connection.execute("SELECT * FROM pragma_table_info(?)", (name,)).fetchall()
            keys = connection.execute("SELECT * FROM pragma_foreign_key_list(?)", (name,)).fetchall()
            constraints = sorted(CONSTRAINT.findall(sql))
            found[name] = {row[1:] for row in columns}, {row[2:] for row in keys}, constraints
    return found


def names_of(database: Path) -> dict[str, set[Any]]:
    """Return the applied migrations, and the permissions."""
    with closing(sqlite3.connect(database)) as connection:
        applied = connection.execute("SELECT app, name FROM django_migrations").fetchall()
        permissions = connection.execute("SELECT codename, name FROM auth_permission").fetchall()
    return {"migrations": set(applied), "permissions": set(permissions)}


def test_the_version_is_recorded_and_a_second_start_changes_nothing(opened: Path, after: Rows) -> None:
    with closing(sqlite3.connect(opened / DATABASE)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (version_number(settings.VERSION),)
    run(opened, "-c", PREPARE)
    assert rows_of(opened / DATABASE) == after
    assert len(list((opened / "backups").iterdir())) == 1


def test_a_database_of_an_older_version_is_refused_and_unchanged(tmp_path: Path) -> None:
    folder = unpacked(tmp_path / "data")
    path = folder / DATABASE
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM django_migrations WHERE app = 'viewer' AND name = ?", REPLACED[-1:])
        connection.commit()
    rows = rows_of(path)
    for command in (["checkpoints", "list", str(tmp_path)], ["checkpoints", "doctor"]):
        ended = subprocess.run(
            [sys.executable, "manage.py", *command],
            cwd=ROOT,
            env=environment_with(folder),
            capture_output=True,
            text=True,
        )
        assert ended.returncode != 0 and "Traceback" not in ended.stderr
        said = [line for line in (ended.stdout + ended.stderr).splitlines() if str(path) in line]
        assert len(said) == 1 and "Open it once with version 0.1.0, then with this one." in said[0]
    assert rows_of(path) == rows and not (folder / "backups").exists()


def test_a_copy_of_the_version_before_is_restored(tmp_path: Path, before: Rows) -> None:
    """Its unfinished jobs are ended, since they may have run since."""
    copy = unpacked(tmp_path / "recorded") / DATABASE
    run(tmp_path / "data", "manage.py", "checkpoints", "restore", str(copy))
    run(tmp_path / "data", "-c", PREPARE)
    after = rows_of(tmp_path / "data" / DATABASE)
    assert after["viewer_annotation"] == before["viewer_annotation"]
    assert {row["status"] for row in after["viewer_job"]} == {
        "succeeded",
        "failed",
        "cancelled",
        "interrupted",
    }


def addresses(rows: Rows) -> dict[str, list[str]]:
    """Return the addresses of pages, each with texts that it shows. The person reads Portuguese."""
    (problem,) = rows["viewer_problem"]
    first = next(row for row in rows["viewer_checkpoint"] if row["entity"] == "crew")
    crew = next(UUID(one["uid"]) for one in rows["viewer_location"] if one["path"].endswith("/crew"))
    runs = {one["id"]: UUID(one["uid"]) for one in rows["viewer_run"]}
    job = "/jobs/00000000-0000-0000-0000-00000000000{}/".format
    started = ["Tea is a drink.", "Reporter", "Collect the facts"]
    pages = {
        "/": ["Final"],
        "/locations/": ["/srv/checkpoints/crew", "/srv/checkpoints/threads.db", "threads"],
        f"/locations/{crew}/": [problem["source_key"]],
        f"/locations/{crew}/project/": ["/srv/newsroom/.venv/bin/python", "newsroom.crew:Newsroom", "20.000"],
        f"/runs/{runs[first['run_id']]}/": [first["branch"]],
        "/jobs/": ["what-if-1", "what-if-7", "50.000"],
        "/inbox/": ["Is draft 1 good?"],
        f"{job(3)}questions/1/": ["Is draft 1 good?", "The text of draft 1."],
        f"{job(3)}questions/2/": ["Is draft 2 good?", "Make it shorter."],
        "/sweeps/00000000-0000-0000-0000-000000000050/": ["topic=coffee", "topic=cocoa"],
        "/search/?q=tea": ["tea"],
        "/shares/": ["A run", "A job"],
        "/shared/token-0/": [],
        job(1): ["what-if-1", "Collect the facts"],
        job(2): started,
        job(4): [*started, "The article about tea.", "What job 4 printed."],
        job(5): [*started, "RateLimitError: the model is busy", "What job 5 printed."],
        job(6): started,
        job(7): started,
    }
    annotated = {row["run_key"] for row in rows["viewer_annotation"] if row["run_key"]}
    for row in rows["viewer_run"]:
        if row["key"] in annotated:
            pages[f"/runs/{runs[row['id']]}/"] = ["Final"]
    copied = {row["checkpoint_id"] for row in rows["viewer_storedcopy"] if row["data"] != "b''"}
    for row in rows["viewer_checkpoint"]:
        if row["id"] in copied:
            pages[f"/checkpoints/{row['id']}/"] = [row["checkpoint_id"]]
            pages[f"/checkpoints/{row['id']}/raw/"] = []
    return pages


def test_every_page_shows_what_was_stored(opened: Path, before: Rows, after: Rows) -> None:
    expected = addresses(before)
    module = "tests.recorded_data_folder.pages"
    found = json.loads(run(opened, "-m", module, stdin=json.dumps(list(expected))))
    assert {address: status for address, (status, _) in found.items() if status != 200} == {}
    missing = {
        address: [text for text in texts if text not in found[address][1]]
        for address, texts in expected.items()
    }
    assert {address: texts for address, texts in missing.items() if texts} == {}

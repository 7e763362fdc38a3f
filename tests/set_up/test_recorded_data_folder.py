"""A data folder of the version before opens with every row, and an older one is refused."""

import json
import sqlite3
import subprocess
import sys
import tarfile
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest

from checkpoint_site import settings
from tests.environments import environment_with
from tests.set_up.contents import Rows, names_of, rows_of, schema_of
from viewer.data_folder.migrating import version_number
from viewer.migrations import RELEASED

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests" / "recorded_data_folder" / "0.1.0.tar.xz"
DATABASE = "forkline.sqlite3"
PREPARE = (
    "import django; django.setup();from viewer.data_folder import prepare_data_folder; prepare_data_folder()"
)
# What the upgrade removes: the second queue, whose entries the rows of jobs replace.
REMOVED = "django_tasks_database"
REMOVED_TABLE = f"{REMOVED}_dbtaskresult"
# What nobody had when the folder was recorded: a person who may run as a member of a group, one who may not,
# and a session.
MORE = """
INSERT INTO auth_user SELECT id + 1, password, last_login, 0, 'member', last_name, email, 0, 1, date_joined,
    first_name FROM auth_user WHERE username = 'reader';
INSERT INTO auth_user SELECT id + 2, password, last_login, 0, 'visitor', last_name, email, 0, 1, date_joined,
    first_name FROM auth_user WHERE username = 'reader';
INSERT INTO auth_user_groups (user_id, group_id)
    SELECT auth_user.id, auth_group.id FROM auth_user, auth_group WHERE username = 'member';
INSERT INTO auth_group_permissions (group_id, permission_id)
    SELECT auth_group.id, auth_permission.id FROM auth_group, auth_permission WHERE codename = 'can_run';
INSERT INTO django_session VALUES ('key', 'data', '2126-01-01 00:00:00');
"""


def unpacked(folder: Path) -> Path:
    with tarfile.open(RECORDED) as archive:
        # As the argument ``filter``, which Python has since 3.11.4.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        connection.executescript(MORE)
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


def test_every_table_of_the_version_before_has_rows(before: Rows, after: Rows) -> None:
    assert {table for table, rows in before.items() if not rows} == set()
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


def test_jobs_have_their_host_and_their_requester(after: Rows) -> None:
    (host,) = after["viewer_host"]
    for row in after["viewer_job"]:
        assert row["host_id"] == (host["id"] if row["started_at"] else None)
        waits = row["status"] == "queued"
        assert row["requester_key"] == (row["requested_by_id"] if waits else None)
    assert {row["host_id"] for row in after["viewer_job"]} == {host["id"], None}


def test_who_could_run_is_an_admin_of_all_locations_and_others_are_viewers(after: Rows) -> None:
    numbers = {row["username"]: row["id"] for row in after["auth_user"]}
    (team,), (group,) = after["viewer_team"], after["auth_group"]
    assert team["name"] == group["name"]
    members = {row["user_id"] for row in after["viewer_team_members"]}
    assert members == {numbers["reader"], numbers["member"]}
    roles = {
        (row["user_id"], row["team_id"], row["level"], row["location_id"]) for row in after["viewer_role"]
    }
    levels = {"reader": 3, "member": 1, "visitor": 1}
    expected = {(numbers[name], None, level, None) for name, level in levels.items()}
    assert roles == {*expected, (None, team["id"], 3, None)}


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
        connection.execute("DELETE FROM django_migrations WHERE app = 'viewer' AND name = ?", RELEASED[-1:])
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

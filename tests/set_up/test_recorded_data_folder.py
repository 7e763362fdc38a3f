"""A data folder of an earlier version opens with everything in it."""

import json
import re
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.environments import environment_with

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests" / "recorded_data_folder" / "0.1.0.tar.xz"
DATABASE = "forkline.sqlite3"
RENAMED_TABLES = {
    "viewer_look": "viewer_preflightcheck",
    "viewer_variations": "viewer_sweep",
    "viewer_checkpointbody": "viewer_storedcopy",
}
RENAMED_COLUMNS = {
    "viewer_job": {
        "asked": "request_digest",
        "due_at": "became_due_at",
        "stopped_by": "limit_hit",
        "steps": "steps_used",
        "variations_id": "sweep_id",
    },
    "viewer_location": {
        "unreadable": "read_error",
        "provider": "store_kind",
        "secrets_mark": "secrets_digest",
        "refused_mark": "refused_fingerprint",
    },
    "viewer_project": {"secrets_mark": "secrets_digest"},
    "viewer_look": {"provider": "store_kind"},
    "viewer_run": {"methods_known": "units_known", "methods_are_all": "all_units_known"},
    "viewer_checkpoint": {
        "key": "source_key",
        "edge": "parent_link",
        "tasks_done": "units_done",
        "tasks_total": "units_total",
    },
    "viewer_problem": {"key": "source_key"},
}
# Emptied where the source can be read again, which adds the usage of models.
REREAD = {("viewer_checkpoint", "fingerprint")}
# Messages: their English text is now a code with values.
MESSAGES = {"error", "unreadable", "reason"}
# Renamed values, by table and column.
RENAMED_VALUES: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("viewer_jobevent", "kind"): lambda kind: {"look": "preflight", "preloaded": "cache_warmed"}.get(
        kind, kind
    ),
    ("viewer_jobevent", "data"): lambda data: (
        data.replace('"parts"', '"components"')
        .replace('"most"', '"max_amount"')
        .replace('"flow_input"', '"text_input"')
    ),
    ("viewer_question", "kind"): lambda kind: "text_input" if kind == "flow_input" else kind,
    ("viewer_job", "plan"): lambda plan: plan.replace('"asked"', '"requested"'),
    ("viewer_look", "report"): lambda report: report.replace('"parts"', '"components"'),
    ("viewer_job", "request"): lambda request: (
        request.replace('"preload"', '"cache_warmup"')
        .replace('"provider"', '"store_kind"')
        .replace('"most"', '"max_checkpoints"')
    ),
    ("viewer_job", "stopped_by"): lambda limit: limit.replace('"variations"', '"sweep"').replace(
        '"most"', '"max_amount"'
    ),
}
INDEX = re.compile(r'INDEX "\w+"')
CONSTRAINT = re.compile(r'CONSTRAINT "\w+" (?:CHECK|UNIQUE).*?(?=, CONSTRAINT|\)$)')
Rows = dict[str, list[dict[str, Any]]]


def rows_of(database: Path) -> Rows:
    """Return every row of every table with data of people or runs."""
    with closing(sqlite3.connect(database)) as connection:
        connection.row_factory = sqlite3.Row
        names = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        return {
            name: [dict(row) for row in connection.execute(f"SELECT * FROM {name} ORDER BY 1")]
            for name in names
            if name.startswith("viewer_") or name == "auth_user"
        }


def as_json(value: Any) -> Any:
    """Return JSON columns in a normal form and other values unchanged."""
    try:
        return json.loads(value)
    except (TypeError, ValueError):
        return value


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the recorded data folder opened by this version, and its former rows."""
    folder = tmp_path_factory.mktemp("recorded") / "data"
    with tarfile.open(RECORDED) as archive:
        archive.extractall(folder, filter="data")
    (folder / "rows.json").write_text(json.dumps(rows_of(folder / DATABASE), default=repr))
    run(
        folder,
        "-c",
        "import django; django.setup();"
        "from viewer.data_folder import prepare_data_folder; prepare_data_folder()",
    )
    return folder


def run(folder: Path, *arguments: str, stdin: str = "") -> str:
    """Run Python on this data folder. Return its output."""
    command, environment = [sys.executable, *arguments], environment_with(folder)
    done = subprocess.run(command, cwd=ROOT, env=environment, input=stdin, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def before(opened: Path) -> Rows:
    rows: Rows = json.loads((opened / "rows.json").read_text())
    return rows


@pytest.fixture
def after(opened: Path) -> Rows:
    rows: Rows = json.loads(json.dumps(rows_of(opened / DATABASE), default=repr))
    return rows


def test_the_database_was_copied_before_its_upgrade(opened: Path, before: Rows) -> None:
    (copy,) = (opened / "backups").glob("forkline-before-upgrade-*.sqlite3")
    assert json.loads(json.dumps(rows_of(copy), default=repr)) == before


def test_an_upgraded_database_has_the_tables_of_a_new_one(opened: Path, empty_data_folder: Path) -> None:
    assert schema_of(opened / DATABASE) == schema_of(empty_data_folder / DATABASE)


def schema_of(database: Path) -> dict[str, Any]:
    """Return the columns and constraints of each table, and the indexes and triggers without their names."""
    with closing(sqlite3.connect(database)) as connection:
        made = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
        tables = [name for name, sql in made.items() if sql.startswith("CREATE TABLE")]
        columns = {
            name: set(connection.execute("SELECT * FROM pragma_table_info(?)", (name,))) for name in tables
        }
    # A column that was added later has another position.
    found: dict[str, Any] = {name: {column[1:] for column in those} for name, those in columns.items()}
    found["constraints"] = {name: sorted(CONSTRAINT.findall(made[name])) for name in tables}
    # An index keeps the name of a table that was renamed.
    found["others"] = sorted(INDEX.sub("INDEX", sql) for name, sql in made.items() if name not in tables)
    return found


def test_every_row_keeps_its_values(before: Rows, after: Rows) -> None:
    assert [table for table, rows in before.items() if not rows] == []
    for table, rows in before.items():
        found = after[RENAMED_TABLES.get(table, table)]
        assert len(found) == len(rows), table
        for old, new in zip(rows, found, strict=True):
            assert changed_columns(table, old, new) == {}, f"{table} {old}"


def changed_columns(table: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a row that lost their value, each with its current value."""
    changed = {}
    for column, value in old.items():
        if column in MESSAGES or column.removesuffix("_words") in MESSAGES:
            continue
        if (table, column) in REREAD and not new[column]:
            continue
        present = new[RENAMED_COLUMNS.get(table, {}).get(column, column)]
        if as_json(RENAMED_VALUES.get((table, column), as_json)(value)) != as_json(present):
            changed[column] = present
    return changed


def test_messages_keep_their_meaning(before: Rows, after: Rows) -> None:
    (problem,) = after["viewer_problem"]
    assert before["viewer_problem"][0]["reason"] and json.loads(problem["reason"])["code"]
    texts = {job["error"] for job in before["viewer_job"]} - {""}
    assert texts == {"RateLimitError: the model is busy"}
    errors = [job["error"] for job in after["viewer_job"] if job["error"]]
    assert len(errors) == 1 and "RateLimitError: the model is busy" in errors[0]


def addresses(rows: Rows) -> dict[str, list[str]]:
    """Return the addresses of the earlier version's pages, each with texts that it showed."""
    first, *_ = rows["viewer_checkpoint"]
    (problem,) = rows["viewer_problem"]
    crew = next(UUID(one["uid"]) for one in rows["viewer_location"] if one["path"].endswith("/crew"))
    run_uid = next(UUID(one["uid"]) for one in rows["viewer_run"] if one["id"] == first["run_id"])
    job = "/jobs/00000000-0000-0000-0000-00000000000{}/".format
    started = ["Tea is a drink.", "Reporter", "Collect the facts"]
    pages = {
        "/": ["research"],
        # The page of the locations, which was the first page.
        "/locations/": ["/srv/checkpoints/crew", "/srv/checkpoints/flow", "/srv/checkpoints/store.db"],
        f"/locations/{crew}/": ["research", problem["key"]],
        f"/locations/{crew}/project/": ["/srv/newsroom/.venv/bin/python", "newsroom.crew:Newsroom", "20,000"],
        f"/locations/{crew}/run/": ["newsroom.flow:DigestFlow"],
        f"/runs/{run_uid}/": ["research", first["branch"]],
        "/jobs/": ["what-if-1", "what-if-7", "50,000 tokens"],
        "/questions/": ["Is draft 1 good?"],
        f"{job(3)}questions/1/": ["Is draft 1 good?", "The text of draft 1."],
        f"{job(3)}questions/2/": ["Is draft 2 good?", "Make it shorter."],
        "/variations/00000000-0000-0000-0000-000000000050/": ["topic=coffee", "topic=cocoa"],
        job(1): ["what-if-1", "Collect the facts"],
        job(2): started,
        job(3): started,
        job(4): [*started, "The article about tea.", "What job 4 printed."],
        job(5): [*started, "RateLimitError: the model is busy", "What job 5 printed."],
        job(6): [*started, "5 steps"],
        job(7): started,
    }
    for checkpoint in rows["viewer_checkpoint"]:
        address = f"/checkpoints/{checkpoint['id']}/"
        pages[address] = [checkpoint["checkpoint_id"]]
        pages[f"{address}raw/"] = ['"entities"', checkpoint["engine_version"]]
        for form in ("fork/", "resume/", "variations/"):
            pages[address + form] = []
    return pages


def test_every_page_shows_the_same_as_before(opened: Path, before: Rows) -> None:
    expected = addresses(before)
    module = "tests.recorded_data_folder.pages"
    found = json.loads(run(opened, "-m", module, stdin=json.dumps(list(expected))))
    assert {address: status for address, (status, _) in found.items() if status != 200} == {}
    missing = {
        address: [text for text in texts if text not in found[address][1]]
        for address, texts in expected.items()
    }
    assert {address: texts for address, texts in missing.items() if texts} == {}

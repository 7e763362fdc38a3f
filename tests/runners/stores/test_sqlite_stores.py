"""A fork of a checkpoint in a SQLite store."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.engine_runs.checkpoints import is_chain, rows
from tests.engine_runs.model import TestModel
from tests.engine_runs.runs import marks, request_for
from tests.runners.conftest import Engine
from viewer.engines.plan import Edits

pytestmark = pytest.mark.engine


@pytest.fixture
def store(stores: Path, tmp_path: Path) -> Path:
    """Return a path without a suffix, to which the engine would add one."""
    return Path(shutil.copy(stores / "store.db", tmp_path / "newsroom"))


def test_a_fork_adds_rows_under_its_checkpoint_and_changes_none(
    engine: Engine, model: TestModel, store: Path
) -> None:
    before = rows(store)
    start = next(row for row in before if row.done == 2)
    edits = Edits(outputs={start.tasks[0]["id"]: "my notes"}, keep=frozenset({start.tasks[1]["id"]}))
    run = engine.run(request_for(start, store, store_kind="sqlite", edits=edits))
    assert run.end["status"] == "succeeded", run.end
    assert len(model.requests) == 2
    assert "my notes" in model.prompts()[0]
    after = rows(store)
    assert after[: len(before)] == before
    new = after[len(before) :]
    assert {row.branch for row in new} == {"try-it"}
    assert is_chain(start.id, new)
    assert [line["path"] for line in run.of("checkpoint")] == [row.source for row in new]
    assert [path.name for path in store.parent.iterdir() if path.name.startswith("newsroom")] == ["newsroom"]


def test_resuming_a_finished_crew_leaves_its_store_unchanged(
    engine: Engine, model: TestModel, store: Path
) -> None:
    before = marks(store)
    start = rows(store)[-1]
    run = engine.run(request_for(start, store, kind="resume", store_kind="sqlite"))
    assert run.end["result"] == start.tasks[-1]["output"]["raw"]
    assert model.requests == []
    assert marks(store) == before
    assert [path.name for path in store.parent.iterdir() if path.name.startswith("newsroom")] == ["newsroom"]


def test_a_python_with_an_old_sqlite_is_refused(
    engine: Engine, model: TestModel, store: Path, tmp_path: Path
) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "sitecustomize.py").write_text(
        "import sqlite3, sys\n"
        "sqlite3.sqlite_version_info, sqlite3.sqlite_version = (3, 40, 1), '3.40.1'\n"
        "sys.modules['pysqlite3'] = None\n"
    )
    before = marks(store)
    request = request_for(rows(store)[0], store, store_kind="sqlite")
    run = engine.run(request, PYTHONPATH=str(tmp_path / "old"))
    assert run.end["status"] == "failed"
    assert "SQLite 3.40.1" in run.end["error"]
    assert "pysqlite3" in run.end["error"]
    assert marks(store) == before
    assert model.requests == []


def test_an_unreadable_row_is_refused(cold_engine: Engine, model: TestModel, store: Path) -> None:
    request = request_for(rows(store)[0], store, store_kind="sqlite")
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE checkpoints SET data = x'ff' WHERE id = ?", (request["checkpoint"]["id"],))
    before = marks(store)
    run = cold_engine.run(request)
    assert run.end["status"] == "failed"
    assert "cannot be read: malformed JSON" in run.end["error"]
    assert marks(store) == before
    assert model.requests == []

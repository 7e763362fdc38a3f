"""A fork of a checkpoint in a SQLite store."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.engine_runs.checkpoints import is_chain, rows
from tests.engine_runs.runs import marks, request_for
from tests.runners.conftest import Engine
from viewer.engines.plan import Edits


@pytest.fixture
def store(stores: Path, tmp_path: Path) -> Path:
    """Return a path without a suffix, to which the engine would add one."""
    return Path(shutil.copy(stores / "store.db", tmp_path / "newsroom"))


def test_a_fork_adds_rows_under_its_checkpoint_and_changes_none(engine: Engine, store: Path) -> None:
    before = rows(store)
    start = next(row for row in before if row.done == 2)
    edits = Edits(outputs={start.tasks[0]["id"]: "my notes"}, keep=frozenset({start.tasks[1]["id"]}))
    run = engine.completed(request_for(start, store, store_kind="sqlite", edits=edits))
    assert len(engine.model.requests) == 2
    assert "my notes" in engine.model.prompts()[0]
    after = rows(store)
    assert after[: len(before)] == before
    new = after[len(before) :]
    assert {row.branch for row in new} == {"try-it"}
    assert is_chain(start.id, new)
    assert [line["path"] for line in run.of("checkpoint")] == [row.source for row in new]
    assert [path.name for path in store.parent.iterdir() if path.name.startswith("newsroom")] == ["newsroom"]


def test_resuming_a_finished_crew_leaves_its_store_unchanged(engine: Engine, store: Path) -> None:
    before = marks(store)
    start = rows(store)[-1]
    run = engine.run(request_for(start, store, kind="resume", store_kind="sqlite"))
    assert run.end["result"] == start.tasks[-1]["output"]["raw"]
    assert engine.model.requests == []
    assert marks(store) == before
    assert [path.name for path in store.parent.iterdir() if path.name.startswith("newsroom")] == ["newsroom"]


def test_an_unreadable_row_is_refused(cold_engine: Engine, store: Path) -> None:
    request = request_for(rows(store)[0], store, store_kind="sqlite")
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE checkpoints SET data = x'ff' WHERE id = ?", (request["checkpoint"]["id"],))
    before = marks(store)
    error = cold_engine.refused(request)
    assert "cannot be read: malformed JSON" in error
    assert marks(store) == before

"""A draft of a flow's state is published with CrewAI's own persistence, once, and under a new id."""

import json
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.engine_runs.runs import PRESS
from tests.flow_states import SCHEMA, add_state
from tests.runners.conftest import Engine

STATES: list[tuple[str, dict[str, Any]]] = [
    ("first", {"id": "draft", "topic": "wasps"}),
    ("second", {"id": "draft", "topic": "é", "n": None}),
]


def store_at(path: Path, flow: str, states: list[tuple[str, dict[str, Any]]]) -> Path:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA)
        for method, state in states:
            add_state(connection, flow, method, state)
        connection.commit()
    return path


@pytest.fixture
def draft(tmp_path: Path) -> Path:
    return store_at(tmp_path / "job/threads.sqlite", "draft", STATES)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store that another program has turned to a write-ahead log, with a flow."""
    path = store_at(tmp_path / "states/flow_states.db", "kept", [("first", {"id": "kept"})])
    run_sql(path, "PRAGMA journal_mode=WAL")
    return path


def run_sql(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(";".join(statements))


def rows_in(path: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return list(
            connection.execute("SELECT flow_uuid, method_name, state_json FROM flow_states ORDER BY id")
        )


def request_for(store: Path, draft: Path, name: str = "new") -> dict[str, Any]:
    """The request of a publication, as the page makes it."""
    return {
        "job": str(uuid.uuid4()),
        "kind": "publish",
        "checkpoint": {"id": "20261120T100000_00000002", "source": f"{draft}#2"},
        "location": {"path": str(store), "store_kind": "states"},
        "entity": "flow_state",
        "name": "",
        "branch": "try-it",
        "inputs": {},
        "outputs": {},
        "state": None,
        "steps": [],
        "folder": str(PRESS),
        "entry_point": "",
        "options": {"into": "new-thread", "new_thread": name},
    }


def test_all_states_are_written_once_under_the_new_id(engine: Engine, store: Path, draft: Path) -> None:
    before, drafted = rows_in(store), draft.read_bytes()
    for count in (2, 0):
        run = engine.completed(request_for(store, draft))
        (published,) = run.of("published")
        assert (published["thread"], published["checkpoints"]) == ("new", count)
        found = rows_in(store)
        assert found[:1] == before and [(flow, method) for flow, method, _state in found[1:]] == [
            ("new", "first"),
            ("new", "second"),
        ]
        states = [json.loads(state) for _flow, _method, state in found[1:]]
        assert states == [{**state, "id": "new"} for _method, state in STATES]
    assert draft.read_bytes() == drafted and engine.model.requests == []
    run_sql(
        store, "UPDATE flow_states SET state_json = '{}' WHERE flow_uuid = 'new' AND method_name = 'first'"
    )
    changed = rows_in(store)
    assert "a flow new with other states" in engine.refused(request_for(store, draft))
    assert rows_in(store) == changed


def test_an_id_that_the_store_has_is_refused(engine: Engine, store: Path, draft: Path) -> None:
    before = rows_in(store)
    assert "a flow kept with other states" in engine.refused(request_for(store, draft, "kept"))
    waiting = ("waits", "{}", "{}", "2026-11-20T10:00:00")
    with closing(sqlite3.connect(store)) as connection, connection:
        statement = "INSERT INTO pending_feedback (flow_uuid, context_json, state_json, created_at) VALUES"
        connection.execute(f"{statement} (?, ?, ?, ?)", waiting)
    assert "a flow waits with other states" in engine.refused(request_for(store, draft, "waits"))
    assert rows_in(store) == before


def test_a_failure_writes_nothing(engine: Engine, store: Path, draft: Path) -> None:
    run_sql(
        store,
        "CREATE TRIGGER full BEFORE INSERT ON flow_states WHEN NEW.method_name = 'second'"
        " BEGIN SELECT RAISE(ABORT, 'no room'); END",
    )
    before = rows_in(store)
    assert "Nothing was written" in engine.refused(request_for(store, draft))
    assert rows_in(store) == before


def test_a_draft_that_is_gone_or_waits_is_refused(engine: Engine, store: Path, draft: Path) -> None:
    before = rows_in(store)
    run_sql(draft, "INSERT INTO pending_feedback VALUES (1, 'draft', '{}', '{}', '2026-11-20T10:00:00')")
    assert "The fork waits for an answer" in engine.refused(request_for(store, draft))
    draft.unlink()
    assert "has been deleted" in engine.refused(request_for(store, draft))
    assert rows_in(store) == before


def test_a_store_that_was_emptied_stays_empty(engine: Engine, store: Path, draft: Path) -> None:
    store.write_bytes(b"")
    assert "the file is empty" in engine.refused(request_for(store, draft))
    assert store.read_bytes() == b"" and [path.name for path in store.parent.iterdir()] == [store.name]

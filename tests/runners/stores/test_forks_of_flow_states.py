"""A state of a flow with ``@persist`` is forked in the job's scratch store."""

import json
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.engine_runs import runs as children
from tests.engine_runs.runs import PRESS
from tests.flow_states import SCHEMA, add_state
from tests.real_stores import hashes_below
from tests.runners.conftest import Engine
from tests.stores.test_sqlite import opened
from viewer.stores.protocol import Entry, Packed


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with a state of the press project's flow. Nobody has turned on its write-ahead log."""
    path = tmp_path / "states/flow_states.db"
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA)
        add_state(connection, "kept", "first", {"id": "kept", "first": "one", "topic": "bees"})
        add_state(connection, "kept", "second", {"id": "kept", "first": "one", "second": "two"})
        connection.commit()
    return path


def request_for(store: Path, rowid: int = 1, **values: Any) -> dict[str, Any]:
    """The request of a fork, as the form makes it."""
    identifier = f"20261120T100000_{rowid:08x}"
    return {
        "job": str(uuid.uuid4()),
        "kind": "fork",
        "checkpoint": {"id": identifier, "source": f"{store}#{identifier}"},
        "location": {"path": str(store), "store_kind": "states"},
        "entity": "flow_state",
        "name": "",
        "branch": "try-it",
        "inputs": {},
        "outputs": {},
        "state": None,
        "steps": [],
        "folder": str(PRESS),
        "entry_point": "press_asking:KeptFlow",
        **values,
    }


def states_in(path: Path) -> list[tuple[str, str, dict[str, Any]]]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT flow_uuid, method_name, state_json FROM flow_states ORDER BY id")
        return [(flow, method, json.loads(state)) for flow, method, state in rows]


def test_a_fork_leaves_every_byte_of_the_store(engine: Engine, store: Path, tmp_path: Path) -> None:
    before = hashes_below(store.parent)
    run = engine.completed(request_for(store, state={"topic": "wasps"}), PRESS_STATES=str(store))
    assert hashes_below(store.parent) == before
    assert [line["method"] for line in run.of("method_completed")] == ["first", "second", "third"]
    states = states_in(tmp_path / "job-1/threads.sqlite")
    assert [method for _flow, method, _state in states] == ["first", "second", "third"]
    (identifier,) = {flow for flow, _method, _state in states}
    assert identifier != "kept" and all(state["id"] == identifier for _flow, _method, state in states)
    # The earlier state was restored, not the newest one.
    assert states[0][2]["topic"] == "wasps" and "second" not in states[0][2]
    written = run.of("checkpoint")
    assert [one["parent"] for one in written] == [
        "20261120T100000_00000001",
        *(one["id"] for one in written[:2]),
    ]


def on_another_host(store: Path, folder: Path, rowid: int = 1, **values: Any) -> dict[str, Any]:
    """The request of the same fork on a host that has another store and a copy of the checkpoint."""
    copy = folder / "copied.json"
    with opened(store) as reader:
        (entry,) = [one for one in reader.entries() if isinstance(one, Entry) and one.key == str(rowid)]
        (packed,) = reader.read_all([entry], 1)
        assert isinstance(packed, Packed)
        copy.write_bytes(zstandard.ZstdDecompressor().decompress(packed.data))
    source = {"id": f"20261120T100000_{rowid:08x}", "source": str(copy), "stored": True}
    return request_for(store, checkpoint=source, options={"into": "new-thread"}, **values)


def test_a_fork_on_another_host_becomes_a_flow_of_the_store_there(
    engine: Engine, store: Path, tmp_path: Path
) -> None:
    request = on_another_host(store, tmp_path, state={"topic": "wasps"})
    before = states_in(store)
    run = engine.completed(request, PRESS_STATES=str(store))
    assert [one["checkpoints"] for one in run.of("published")] == [3]
    written = states_in(store)
    assert written[: len(before)] == before
    assert [(flow, method) for flow, method, _state in written[len(before) :]] == [
        (request["job"], method) for method in ("first", "second", "third")
    ]
    assert written[-1][2]["topic"] == "wasps"


def test_a_state_that_is_gone_or_broken_starts_nothing(engine: Engine, store: Path) -> None:
    with closing(sqlite3.connect(store)) as connection:
        add_state(connection, "kept", "second", "{")
        connection.commit()
    assert "is no longer in" in engine.refused(request_for(store, 9))
    assert "cannot be read" in engine.refused(request_for(store, 3))
    options = {"checkpoints": {"max_checkpoints": 1}}
    assert "cannot be chosen" in engine.refused(request_for(store, options=options))
    assert "needs its code" in engine.refused(request_for(store, entry_point=""))


def test_the_refusal_of_a_state_holds_none_of_its_values(engine: Engine, store: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(store)) as connection:
        add_state(connection, "typed", "outline", {"id": "typed", "year": "hunter2"})
        connection.commit()
    error = engine.refused(request_for(store, 3, entry_point="press_flow:PressFlow"))
    assert "The flow's state is invalid: year: Input should be a valid integer" in error
    written = [path for path in (tmp_path / "job-1").rglob("*") if path.is_file()]
    assert written and not any(b"hunter2" in path.read_bytes() for path in written)


def waiting(store: Path, **context: Any) -> int:
    """Add a flow that waits for feedback, as CrewAI stores it. Return the rowid of its state."""
    asked = {
        "flow_id": "asks",
        "flow_class": "press_asking.ReviewFlow",
        "method_name": "draft",
        "method_output": "Bees are fine.",
        "message": "Is it good?",
        "emit": ["rejected", "approved"],
        "default_outcome": "rejected",
        "metadata": {},
        "llm": "openai/gpt-4o-mini",
        "requested_at": "2026-11-20T10:00:00",
        **context,
    }
    state = {"id": "asks", "drafted": "yes"}
    with closing(sqlite3.connect(store)) as connection:
        add_state(connection, "asks", "draft", state)
        (rowid,) = connection.execute("SELECT max(id) FROM flow_states").fetchone()
        row = ("asks", json.dumps(asked), json.dumps(state), "2026-11-20T10:00:00")
        connection.execute(
            "INSERT INTO pending_feedback (flow_uuid, context_json, state_json, created_at)"
            " VALUES (?, ?, ?, ?)",
            row,
        )
        connection.commit()
    return int(rowid)


def questions_in(store: Path) -> list[str]:
    with closing(sqlite3.connect(store)) as connection:
        return [flow for (flow,) in connection.execute("SELECT flow_uuid FROM pending_feedback")]


REVIEW = {"entry_point": "press_asking:ReviewFlow"}


def test_an_answer_continues_the_flow_and_is_used_once(engine: Engine, store: Path) -> None:
    rowid = waiting(store, llm={"model": "openai/gpt-4o-mini", "base_url": "http://127.0.0.1:9"})
    request = request_for(store, rowid, kind="resume", branch="main", answers={"": "approved"}, **REVIEW)
    run = engine.completed(request, PRESS_STATES=str(store))
    assert engine.model.prompts() == ["Publish <Bees are fine.>, drafted: yes"]
    assert questions_in(store) == []
    assert [method for flow, method, _ in states_in(store) if flow == "asks"] == ["draft", "draft", "publish"]
    assert [one["path"] for one in run.of("checkpoint")] == [f"{store}#{rowid + 1}", f"{store}#{rowid + 2}"]
    engine.model.reset()
    assert "no longer waits" in engine.refused(request, PRESS_STATES=str(store))


def test_an_answer_in_a_fork_leaves_the_flow_waiting(engine: Engine, store: Path, tmp_path: Path) -> None:
    rowid = waiting(store)
    before = hashes_below(store.parent)
    run = engine.answered(request_for(store, rowid, **REVIEW), "rejected", PRESS_STATES=str(store))
    (question,) = run.of("question")
    assert question["context"]["output"] == "Bees are fine."
    assert engine.model.prompts() == ["Drop"]
    assert hashes_below(store.parent) == before
    scratch = tmp_path / "job-1/threads.sqlite"
    assert [method for _, method, _ in states_in(scratch)] == ["draft", "draft", "drop"]
    assert questions_in(scratch) == []


def test_an_answer_to_what_is_no_longer_asked_runs_nothing(engine: Engine, store: Path) -> None:
    """Another program answers while a person is asked, and the flow waits for something else."""
    request = request_for(store, waiting(store), kind="resume", branch="main", **REVIEW)
    folder = engine.job()
    with children.started(engine.python, engine.model, folder, request, PRESS_STATES=str(store)) as child:
        assert children.asked(folder, child, 1, 60)
        with closing(sqlite3.connect(store)) as connection:
            connection.execute(
                "UPDATE pending_feedback SET context_json = replace(context_json, 'good', 'bad')"
            )
            connection.commit()
        end = children.answered(folder, child, ["approved"]).end
    assert "no longer waits" in str(end.get("error"))
    assert engine.model.prompts() == [] and questions_in(store) == ["asks"]


def test_an_edited_state_stays_that_of_its_flow_while_others_are_stored(engine: Engine, store: Path) -> None:
    rowid = waiting(store)
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("""
            CREATE TRIGGER other AFTER INSERT ON flow_states WHEN NEW.flow_uuid <> 'other' BEGIN
                INSERT INTO flow_states (flow_uuid, method_name, timestamp, state_json)
                VALUES ('other', 'x', NEW.timestamp, '{}'); END""")
    request = request_for(store, rowid, kind="resume", branch="main", answers={"": "rejected"}, **REVIEW)
    run = engine.completed({**request, "state": {"id": "kept", "topic": "wasps"}}, PRESS_STATES=str(store))
    flows = [flow for flow, _method, _state in states_in(store)]
    assert flows == ["kept", "kept", "asks", "asks", "other", "asks", "other"]
    assert states_in(store)[-2][2]["topic"] == "wasps"
    assert [one["path"] for one in run.of("checkpoint")] == [f"{store}#{rowid + 1}", f"{store}#{rowid + 3}"]


@pytest.mark.parametrize(
    ("context", "entry_point"),
    [
        ({"flow_class": "os.system"}, "press_asking:ReviewFlow"),
        ({"flow_class": "press_asking.KeptFlow"}, "press_asking:ReviewFlow"),
        ({"method_name": "collect"}, "press_asking:ReviewFlow"),
        ({"flow_class": 7}, "press_asking:ReviewFlow"),
    ],
)
def test_only_the_flow_that_asks_is_answered(
    engine: Engine, store: Path, context: dict[str, Any], entry_point: str
) -> None:
    rowid = waiting(store, **context)
    request = request_for(store, rowid, kind="resume", answers={"": "x"}, entry_point=entry_point)
    assert "waits for feedback, but the entry point is" in engine.refused(request, PRESS_STATES=str(store))
    assert questions_in(store) == ["asks"]


def test_a_preflight_check_finds_a_state_that_does_not_fit(engine: Engine, store: Path) -> None:
    before = hashes_below(store.parent)
    request = request_for(store, kind="preflight")
    report = engine.completed(request, PRESS_STATES=str(store)).of("preflight")[0]["report"]
    assert (report["effects"], report["blocks"], report["is_complete"]) == ([], [], True)
    rowid = waiting(store, flow_class="elsewhere.Flow")
    before = hashes_below(store.parent)
    request = request_for(store, rowid, kind="preflight", **REVIEW)
    report = engine.completed(request, PRESS_STATES=str(store)).of("preflight")[0]["report"]
    assert "waits for feedback, but the entry point is" in str(report["blocks"])
    assert hashes_below(store.parent) == before

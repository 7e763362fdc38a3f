"""New runs of the project's crew and flow, and which of their checkpoints stay."""

import json
import shutil
from pathlib import Path

from tests.engine_runs.checkpoints import is_chain, rows
from tests.engine_runs.runs import marks, new_run_request, request_for, saved_in
from tests.runners.conftest import Engine

INPUTS = {"topic": "bees", "year": 2026, "tags": ["a", "b"]}
TASKS = ["task_started", "task_completed"]


def test_a_new_crew_prunes_only_its_own_checkpoints(engine: Engine, stores: Path) -> None:
    # The folder also has checkpoints of another run and similar files of the user.
    location = stores / "crew"
    (location / "main" / "mine.json").write_text("{}")
    (location / "main" / "00000000T000000_00000000_p-none.json").write_text('{"entities": []}')
    (location / "notes.json").write_text("[]")
    before = marks(location)
    asked = new_run_request(
        location, "crew", "press_crew:make_crew", INPUTS, {"events": TASKS, "max_checkpoints": 3}
    )
    run = engine.completed(asked)
    assert len(engine.model.requests) == 4
    assert "Collect bees in 2026, ['a', 'b']" in engine.model.prompts()[0]
    assert {path: mark for path, mark in marks(location).items() if path in before} == before
    printed = run.of("checkpoint")
    assert [line["trigger"] for line in printed] == TASKS * 4
    left = [line["path"] for line in printed if Path(line["path"]).exists()]
    assert left == [line["path"] for line in printed[-3:]]
    assert set(marks(location)) - set(before) == set(left)
    last = json.loads(Path(left[-1]).read_bytes())
    crew = next(entity for entity in last["entities"] if entity["entity_type"] == "crew")
    assert crew["checkpoint_inputs"] == INPUTS
    assert [task["output"] is not None for task in crew["tasks"]] == [True] * 4
    steps = run.of("steps")[0]["steps"]
    assert [step["title"] for step in steps][2] == "Write about bees for 2026"
    assert [line["task"] for line in run.of("task_completed")] == [step["unit"] for step in steps]


def test_a_flow_starts_with_typed_state_in_a_new_sqlite_store(engine: Engine, tmp_path: Path) -> None:
    store = tmp_path / "new" / "flow.db"
    asked = {"topic": "bees", "year": 1999}
    run = engine.completed(new_run_request(store, "flow", "press_flow:PressFlow", asked, store_kind="sqlite"))
    # The year selects the short route.
    assert {"Write briefly", "Outline bees"} <= {prompt.strip() for prompt in engine.model.prompts()}
    written = rows(store)
    assert is_chain("", written)
    assert [line["path"] for line in run.of("checkpoint")] == [row.source for row in written]
    assert {line["trigger"] for line in run.of("checkpoint")} == {"method_execution_finished"}
    state = written[-1].root["checkpoint_state"]
    assert (state["topic"], state["year"]) == ("bees", 1999)


def test_a_fork_prunes_its_own_rows_and_never_its_start(engine: Engine, stores: Path, tmp_path: Path) -> None:
    store = Path(shutil.copy(stores / "store.db", tmp_path / "press.db"))
    before = rows(store)
    start = next(row for row in before if row.done == 2)
    request = request_for(start, store, store_kind="sqlite")
    run = engine.completed(
        request | {"options": {"checkpoints": {"events": ["task_completed"], "max_checkpoints": 1}}}
    )
    printed = run.of("checkpoint")
    assert [line["trigger"] for line in printed] == ["", "task_completed", "task_completed"]
    after = rows(store)
    assert after[: len(before)] == before
    assert [row.id for row in after[len(before) :]] == [printed[-1]["id"]]


def test_a_new_crew_uses_the_chosen_models_and_warms_the_cache_first(engine: Engine, tmp_path: Path) -> None:
    asked = new_run_request(tmp_path / "cp", "crew", "press_crew:make_crew", INPUTS)
    # By the role with the inputs of an earlier run.
    chosen = {"models": {"*": "gpt-4.1-mini", "Researcher of AI": "gpt-4.1"}, "cache_warmup": "sequential"}
    run = engine.completed(asked | {"options": chosen})
    assert [body.get("max_tokens") == 1 for body in engine.model.requests] == [True] * 2 + [False] * 4
    assert [body["model"] for body in engine.model.requests] == [
        *("gpt-4.1", "gpt-4.1-mini"),
        *("gpt-4.1", "gpt-4.1", "gpt-4.1-mini", "gpt-4.1-mini"),
    ]
    systems = [body["messages"][0]["content"] for body in engine.model.requests]
    assert systems[:2] == [systems[2], systems[4]] and "Researcher of bees" in systems[0]
    assert run.of("cache_warmed")[0]["agents"] == ["Researcher of bees", "Writer"]
    unknown = engine.run(asked | {"options": {"models": {"Printer": "gpt-4.1"}}})
    assert unknown.end["status"] == "failed" and "'Printer'" in unknown.end["error"]
    assert len(engine.model.requests) == 6


def test_an_event_unknown_to_the_version_is_refused_before_the_run(engine: Engine, tmp_path: Path) -> None:
    events = {"events": ["task_completed", "task_dreamt"]}
    error = engine.refused(new_run_request(tmp_path / "cp", "crew", "press_crew:make_crew", INPUTS, events))
    assert "task_dreamt" in error
    assert not (tmp_path / "cp").exists()


def test_missing_inputs_are_named(engine: Engine, tmp_path: Path) -> None:
    run = engine.run(new_run_request(tmp_path / "cp", "crew", "press_crew:make_crew", {"topic": "bees"}))
    assert run.end["error"] == "The crew's texts use inputs that have no value: tags, year."
    assert not engine.model.requests
    assert not saved_in(tmp_path / "cp")

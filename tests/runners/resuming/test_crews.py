"""Resumes and forks of real crews: which tasks call the model, and with what."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.engine_runs.checkpoints import after_task, crew_after, is_chain, tasks_called, written
from tests.engine_runs.runs import PRESS, marks, plan_for, request_for, saved_in
from tests.runners.conftest import Engine
from viewer.engines.plan import Action, Edits
from viewer.messages.message import message_from

CREW = "press_crew:make_crew"


def test_two_resumes_of_one_checkpoint_share_a_branch_and_differ_by_parent(
    engine: Engine, stores: Path
) -> None:
    location, start, before = crew_after(stores, 3)
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(engine.run, [request_for(start, location, kind="resume") for _ in range(2)]))
    assert [run.end["status"] for run in runs] == ["succeeded", "succeeded"]
    new = written(location, before)
    originals = [saved for saved in saved_in(location) if saved.source in before]
    children_of_start = [saved for saved in (*originals, *new) if saved.parent == start.id]
    assert len(children_of_start) == 3
    assert {saved.branch for saved in children_of_start} == {"main"}


def test_a_fork_writes_a_branch_that_starts_at_its_checkpoint_from_any_folder(
    engine: Engine, stores: Path
) -> None:
    location, start, before = crew_after(stores, 3, "task_started")
    run = engine.run(request_for(start, location, branch="fork/one_1a2b3c"))
    new = written(location, before)
    assert {saved.branch for saved in new} == {"fork/one_1a2b3c"}
    assert is_chain(start.id, new)
    # The engine's own settings apply: a checkpoint for each task's start and end.
    assert [saved.body.get("trigger") for saved in new] == [None, "task_started", "task_completed"]
    assert [line["path"] for line in run.of("checkpoint")] == [saved.source for saved in new]
    assert [line["parent"] for line in run.of("checkpoint")] == [start.id, *[saved.id for saved in new[:-1]]]
    # The saved location was relative: nothing may appear in the project's folder or that of the runner.
    elsewhere = [*PRESS.rglob("*.json"), *engine.folder.glob("job-1/**/*.json")]
    assert {path.name for path in elsewhere} == {"request.json", "reserved.json"}
    saved_settings = new[-1].root["checkpoint"]
    assert saved_settings["location"] == str(location)
    assert saved_settings["max_checkpoints"] is None


def test_inputs_keep_their_types_and_reach_the_tasks_that_run(engine: Engine, stores: Path) -> None:
    location, start, before = crew_after(stores, 2)
    edits = Edits(inputs={"year": 1999, "tags": ["x", 2]}, again=frozenset({start.tasks[0]["id"]}))
    engine.completed(request_for(start, location, edits=edits))
    assert "Collect AI in 1999, ['x', 2]" in engine.model.prompts()[0]
    assert "Write about AI for 1999" in engine.model.prompts()[2]
    assert written(location, before)[-1].root["checkpoint_inputs"] == {
        "topic": "AI",
        "year": 1999,
        "tags": ["x", 2],
    }


def test_a_kept_task_keeps_the_text_that_produced_its_output(engine: Engine, stores: Path) -> None:
    location, start, before = crew_after(stores, 2)
    run = engine.run(request_for(start, location, edits=Edits(inputs={"topic": "tea"})))
    last = written(location, before)[-1]
    assert [task["description"] for task in last.tasks] == [
        "Collect AI in 2026, ['a', 'b']",
        "Check AI",
        "Write about tea for 2026",
        "Title for tea",
    ]
    # Without an entry point the role's template is unknown, which is reported.
    assert not any("Researcher" in line["message"] for line in run.of("warning"))


def test_a_placeholder_without_an_input_is_left_unchanged(engine: Engine, stores: Path) -> None:
    start = after_task(stores / "plain", 2)
    engine.completed(request_for(start, stores / "plain", edits=Edits(inputs={"topic": "tea"})))
    assert "Write about tea for {year}" in engine.model.prompts()[0]


def test_later_tasks_receive_an_edited_output_as_text_json_and_model(engine: Engine, stores: Path) -> None:
    location, start, before = crew_after(stores, 2)
    edits = Edits(outputs={start.tasks[1]["id"]: {"json": {"text": "my own fact", "score": 9}}})
    engine.completed(request_for(start, location, edits=edits))
    assert "my own fact" in engine.model.prompts()[0]
    assert json.dumps({"text": "fact"})[1:8] in engine.model.prompts()[0]
    first = written(location, before)[0]
    output = first.tasks[1]["output"]
    assert json.loads(output["raw"]) == {"text": "my own fact", "score": 9}
    assert first.body.get("trigger") is None


def test_an_edit_that_does_not_fit_the_tasks_model_is_refused_before_any_call(
    engine: Engine, stores: Path
) -> None:
    location, start, before = crew_after(stores, 2)
    edits = Edits(outputs={start.tasks[1]["id"]: {"json": {"text": "no score"}}})
    error = engine.refused(request_for(start, location, edits=edits))
    assert "task 2 is invalid: score: Field required" in error and "no score" not in error
    assert written(location, before) == []


def test_an_edited_output_after_a_task_that_runs_again_is_kept(engine: Engine, stores: Path) -> None:
    location, start, before = crew_after(stores, 3)
    first, _, third, _ = (task["id"] for task in start.tasks)
    edits = Edits(outputs={third: "my own article"}, again=frozenset({first}))
    steps = plan_for(start, "crew", edits)
    assert [step.action for step in steps] == [Action.AGAIN, Action.AGAIN, Action.PINNED, Action.RUNS]
    engine.completed(request_for(start, location, edits=edits))
    assert tasks_called(engine.model) == ["Collect", "Check", "Title"]
    assert "my own article" in engine.model.prompts()[2]
    assert written(location, before)[-1].tasks[2]["output"]["raw"] == "my own article"


@pytest.mark.parametrize(
    ("again", "keep", "edit"),
    [((2,), (), ()), ((1,), (3,), ()), ((), (2,), (1,))],
    ids=["again 2", "again 1 keep 3", "edit 1 keep 2"],
)
def test_the_plan_lists_exactly_the_tasks_the_model_is_called_for(
    engine: Engine, stores: Path, again: tuple[int, ...], keep: tuple[int, ...], edit: tuple[int, ...]
) -> None:
    start = after_task(stores / "crew", 3)
    ids = [task["id"] for task in start.tasks]
    edits = Edits(
        outputs={ids[number - 1]: "edited" for number in edit},
        again=frozenset(ids[number - 1] for number in again),
        keep=frozenset(ids[number - 1] for number in keep),
    )
    steps = plan_for(start, "crew", edits)
    run = engine.run(request_for(start, stores / "crew", edits=edits))
    called = [line["position"] for line in run.of("task_started")]
    assert called == [step.position for step in steps if step.action in {Action.AGAIN, Action.RUNS}]
    assert run.end["status"] == "succeeded"


def test_the_projects_own_crew_keeps_its_links_tools_guardrails_and_templates(
    engine: Engine, stores: Path
) -> None:
    location, start, before = crew_after(stores, 2)
    edits = Edits(inputs={"topic": "tea"}, again=frozenset({start.tasks[1]["id"]}))
    run = engine.completed(request_for(start, location, edits=edits, entry_point=CREW))
    assert run.of("warning") == []
    check, _, title = engine.model.prompts()
    assert "Researcher of tea" in check
    assert [tool["function"]["name"] for tool in engine.model.requests[1]["tools"]] == ["search_archive"]
    # Its context skips two tasks, so it receives only the first task's output.
    given = title.partition("This is the context you're working with:")[2]
    assert start.tasks[0]["output"]["raw"] in given
    assert run.of("task_completed")[1]["output"] not in given
    new = written(location, before)
    assert is_chain(start.id, new)
    assert [task["id"] for task in new[-1].tasks] == [task["id"] for task in start.tasks]
    assert new[-1].root["id"] == start.root["id"]


def test_links_between_tasks_are_read_from_the_record(engine: Engine, stores: Path) -> None:
    start = after_task(stores / "crew", 3, "task_started")
    run = engine.run(request_for(start, stores / "crew", kind="resume"))
    given = engine.model.prompts()[0].partition("This is the context you're working with:")[2]
    assert start.tasks[0]["output"]["raw"] in given
    assert start.tasks[2]["output"]["raw"] not in given
    assert not any("which outputs" in line["message"] for line in run.of("warning"))


def test_a_changed_crew_is_resumed_by_a_persons_matches(engine: Engine, stores: Path) -> None:
    location = stores / "crew"
    start = after_task(location, 2)
    # The second task has another description, and the first was removed.
    changed, removed = start.tasks[1], start.tasks[0]
    changed["checkpoint_original_description"] = "Another task"
    removed["checkpoint_original_description"] = "A task of old"
    Path(start.source).write_text(json.dumps(start.body))
    request = request_for(start, location, entry_point=CREW)
    refused = engine.run(request)
    assert refused.end["status"] == "failed"
    assert "has no certain match" in refused.end["error"]
    assert "“Another task”" in refused.end["error"] and "“A task of old”" in refused.end["error"]
    refusal = message_from(refused.lines[-1]["data"]["error"])
    assert refusal is not None
    asked = refusal.values["questions"]
    assert isinstance(asked, list) and {"title": "Another task", "position": 2} in [
        one.values for one in asked
    ]
    assert engine.model.requests == []
    before = marks(location)
    engine.completed({**request, "options": {"matches": {changed["id"]: "2", removed["id"]: "-"}}})
    assert tasks_called(engine.model) == ["Write", "Title"]
    last = written(location, before)[-1]
    assert [task["id"] for task in last.tasks] == [task["id"] for task in start.tasks]
    assert last.tasks[0]["output"]["raw"] == removed["output"]["raw"]
    assert [agent["id"] for agent in last.root["agents"]] == [agent["id"] for agent in start.root["agents"]]

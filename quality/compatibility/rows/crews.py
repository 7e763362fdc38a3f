"""Crews: resumed, and forked with edited inputs and outputs."""

from pathlib import Path
from typing import Any

from quality.compatibility.rows import row
from quality.compatibility.stage import Stage, grown, holds, missing, same, succeeded, tasks_called
from tests.runners.children import Saved, marks, plan_for, request_for, saved_in
from viewer.engines.crewai.contents import contents_of
from viewer.engines.crewai.plan import plan_of
from viewer.engines.crewai.units import units_of
from viewer.engines.plan import Action, Edits

ENTRY_POINT = "press_parts:plain"
DONE = ("task_completed",)


def after(location: Path, done: int, triggers: tuple[str, ...] = DONE) -> Saved:
    """The checkpoint that was written after so many tasks. Raises NotPossible, Failed."""
    found = [
        saved for saved in saved_in(location) if saved.done == done and saved.body.get("trigger") in triggers
    ]
    if not found:
        raise missing(location, "checkpoint of such a run")
    return found[0]


def stale_in(start: Saved, inputs: dict[str, Any]) -> list[tuple[str, ...]]:
    """The changed inputs that each task's kept text was made with, as the form names them."""
    units = units_of(contents_of(start.body))
    return [step.stale for step in plan_of("crew", units, Edits(inputs=inputs))]


@row("crew", "resume after an interrupt")
def interrupted(stage: Stage) -> None:
    stage.model.holds_from = 3
    with stage.recorder(stage.folder / "own", "simple") as child:
        stage.model.wait_for(3, 90)
        child.kill()
        child.wait()
    stage.model.gate.set()
    stage.model.forget()
    location = stage.folder / "own/store"
    start, before = saved_in(location)[-1], marks(location)
    same("finished tasks", start.done, 2)
    run = stage.run(request_for(start, location, kind="resume"))
    succeeded(run)
    same("tasks called", tasks_called(stage.model), ["Write", "Title"])
    new = grown(location, before, start, "main")
    same("finished tasks at the end", new[-1].done, 4)
    same("result", run.end["result"], new[-1].tasks[3]["output"]["raw"])


@row("crew", "resume after a failed task")
def after_failure(stage: Stage) -> None:
    stage.model.refusals["Write about"] = 400
    with stage.recorder(stage.folder / "own", "simple") as child:
        holds("the engine's own run failed", child.wait(120) != 0)
    stage.model.forget()
    location = stage.folder / "own/store"
    start, before = saved_in(location)[-1], marks(location)
    same("its last trigger", start.body.get("trigger"), "task_failed")
    run = stage.run(request_for(start, location, kind="resume"))
    succeeded(run)
    same("tasks called", tasks_called(stage.model), ["Write", "Title"])
    same("finished tasks at the end", grown(location, before, start, "main")[-1].done, 4)


@row("crew", "resume from an old checkpoint")
def old_checkpoint(stage: Stage) -> None:
    location = stage.recorded("simple")
    start, before = after(location, 1), marks(location)
    run = stage.run(request_for(start, location, kind="resume"))
    succeeded(run)
    same("tasks called", tasks_called(stage.model), ["Check", "Write", "Title"])
    new = grown(location, before, start, "main")
    same("told checkpoints", [line["id"] for line in run.of("checkpoint")], [one.id for one in new])
    siblings = [saved for saved in saved_in(location) if saved.parent == start.id]
    same("continuations of the old checkpoint", len(siblings), 2)


@row("crew", "fork with edited inputs")
def edited_inputs(stage: Stage) -> None:
    location = stage.recorded("simple")
    start, before = after(location, 2), marks(location)
    inputs = {"topic": "tea", "year": 1999, "tags": ["x", 2]}
    edits = Edits(inputs=inputs, again=frozenset({start.tasks[0]["id"]}))
    same("named as stale", stale_in(start, inputs), [("topic", "year", "tags"), ("topic",), (), ()])
    # The third speaks of the year by its agent's goal alone.
    written = after(location, 3)
    same("named as stale", stale_in(written, {"year": 1999}), [("year",), (), ("year",), ()])
    run = stage.run(request_for(start, location, edits=edits, entry_point=ENTRY_POINT))
    succeeded(run)
    same("tasks called", tasks_called(stage.model), ["Collect", "Check", "Write", "Title"])
    prompts = stage.model.prompts()
    holds("the first task is asked with the new inputs", "Collect tea in 1999, ['x', 2]" in prompts[0])
    holds("an agent's role speaks of the new input", "Researcher of tea" in prompts[0])
    holds("an agent's goal speaks of the new input", "Write for 1999" in prompts[2])
    holds("an expected output speaks of the new input", "a title of 1999" in prompts[3])
    old = [prompt for prompt in prompts if "AI" in prompt or "2026" in prompt]
    same("calls that were sent an old input", old, [])
    same("saved inputs", grown(location, before, start, "try-it")[-1].root["checkpoint_inputs"], inputs)


@row("crew", "fork with edited inputs, without the project's code")
def edited_inputs_alone(stage: Stage) -> None:
    location = stage.recorded("simple")
    start, before = after(location, 2), marks(location)
    run = stage.run(request_for(start, location, edits=Edits(inputs={"topic": "tea", "year": 1999})))
    succeeded(run)
    same("tasks called", tasks_called(stage.model), ["Write", "Title"])
    holds("what runs is asked with the new input", "Write about tea" in stage.model.prompts()[0])
    holds("an expected output speaks of the new input", "a title of 1999" in stage.model.prompts()[1])
    told = [line["message"] for line in run.of("warning")]
    holds("the role that cannot be told anew is named", any("'Writer' still speaks" in one for one in told))
    last = grown(location, before, start, "try-it")[-1]
    same("a kept task's text", last.tasks[1]["description"], "Check AI")
    same("saved inputs", last.root["checkpoint_inputs"], {"topic": "tea", "year": 1999, "tags": ["a", "b"]})


@row("crew", "fork with another model, its prompts sent ahead")
def other_model(stage: Stage) -> None:
    location = stage.recorded("simple")
    start, before = after(location, 1), marks(location)
    request = request_for(start, location)
    request["options"] = {"models": {"Writer": "gpt-4.1"}, "cache_warmup": "sequential"}
    run = stage.run(request)
    succeeded(run)
    calls = stage.model.requests
    same("calls of one token", [call.get("max_tokens") == 1 for call in calls], [True] * 2 + [False] * 3)
    same("models", [call["model"] for call in calls[2:]], ["gpt-4o-mini", "gpt-4.1", "gpt-4.1"])
    # Old engines keep an agent's former tasks in its conversation, behind the same beginning.
    systems = [call["messages"][0] for call in calls]
    same("prompts sent ahead", systems[:2], systems[2:4])
    same("agents", [line["agents"] for line in run.of("cache_warmed")], [["Researcher of AI", "Writer"]])
    grown(location, before, start, "try-it")


@row("crew", "fork with one edited output")
def one_edit(stage: Stage) -> None:
    location = stage.recorded("simple")
    start, before = after(location, 2), marks(location)
    edits = Edits(outputs={start.tasks[1]["id"]: "my own words"})
    run = stage.run(request_for(start, location, edits=edits))
    succeeded(run)
    same("tasks called", tasks_called(stage.model), ["Write", "Title"])
    holds("the model is given the edited text", "my own words" in stage.model.prompts()[0])
    old = start.tasks[1]["output"]["raw"]
    holds("nobody is given the old text", not any(old in prompt for prompt in stage.model.prompts()))
    new = grown(location, before, start, "try-it")
    same("edited output in the first checkpoint", new[0].tasks[1]["output"]["raw"], "my own words")


@row("crew", "fork with two edited outputs that are not neighbours")
def two_edits(stage: Stage) -> None:
    location = stage.recorded("simple")
    start, before = after(location, 3), marks(location)
    first, second, third, _ = (task["id"] for task in start.tasks)
    edits = Edits(outputs={first: "my notes", third: "my article"}, again=frozenset({second}))
    actions = [step.action for step in plan_for(start, "crew", edits)]
    same("plan", actions, [Action.EDITED, Action.AGAIN, Action.PINNED, Action.RUNS])
    run = stage.run(request_for(start, location, edits=edits))
    succeeded(run)
    same("tasks called", tasks_called(stage.model), ["Check", "Title"])
    holds("the first edit is read", "my notes" in stage.model.prompts()[0])
    last = grown(location, before, start, "try-it")[-1]
    same("the pinned output", last.tasks[2]["output"]["raw"], "my article")


@row("crew", "fork with nothing left to run")
def nothing_left(stage: Stage) -> None:
    location = stage.recorded("simple")
    start, before = after(location, 4), marks(location)
    run = stage.run(request_for(start, location))
    succeeded(run)
    same("model calls", len(stage.model.requests), 0)
    same("checkpoints", len(grown(location, before, start, "try-it")), 1)
    same("result", run.end["result"], start.tasks[3]["output"]["raw"])

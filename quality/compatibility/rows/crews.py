"""Crews: resume, and fork with edited inputs and outputs."""

from pathlib import Path
from typing import Any

from quality.compatibility.rows import row
from quality.compatibility.sandbox import Sandbox, grown, holds, missing, same
from tests.engine_runs.runs import PRESS, Saved, marks, plan_for, request_for, saved_in
from tests.jobs.code.repositories import changed_since
from viewer.engines.crewai.contents import contents_of
from viewer.engines.crewai.planning import plan_of, units_of
from viewer.engines.plan import Action, Edits

ENTRY_POINT = "press_parts:plain"
DONE = ("task_completed",)


def after(location: Path, done: int, triggers: tuple[str, ...] = DONE) -> Saved:
    """Return the checkpoint after this many tasks. Raise NotPossible or Failed."""
    found = [
        saved for saved in saved_in(location) if saved.done == done and saved.body.get("trigger") in triggers
    ]
    if not found:
        raise missing(location, "checkpoint of such a run")
    return found[0]


def recorded_after(sandbox: Sandbox, kind: str, done: int) -> tuple[Path, Saved, dict[str, str]]:
    """Return a recorded run, its checkpoint after this many tasks, and a hash of each of its files."""
    location = sandbox.recorded(kind)
    return location, after(location, done), marks(location)


def stale_in(start: Saved, inputs: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the changed inputs that each kept output depends on, as the form names them."""
    units = units_of(contents_of(start.body))
    return [step.stale for step in plan_of("crew", units, Edits(inputs=inputs))]


@row("crew", "resume after an interrupt")
def interrupted(sandbox: Sandbox) -> None:
    sandbox.model.holds_from = 3
    with sandbox.recorder(sandbox.folder / "own", "simple") as child:
        sandbox.model.wait_for(3, 90)
        child.kill()
        child.wait()
    sandbox.model.gate.set()
    sandbox.model.reset()
    location = sandbox.folder / "own/store"
    start, before = saved_in(location)[-1], marks(location)
    same("finished tasks", start.done, 2)
    run = sandbox.continued(request_for(start, location, kind="resume"), "Write Title")
    new = grown(location, before, start, "main")
    same("finished tasks at the end", new[-1].done, 4)
    same("result", run.end["result"], new[-1].tasks[3]["output"]["raw"])


@row("crew", "resume after a failed task")
def after_failure(sandbox: Sandbox) -> None:
    sandbox.model.refusals["Write about"] = 400
    with sandbox.recorder(sandbox.folder / "own", "simple") as child:
        holds("the engine's own run failed", child.wait(120) != 0)
    sandbox.model.reset()
    location = sandbox.folder / "own/store"
    start, before = saved_in(location)[-1], marks(location)
    same("its last trigger", start.body.get("trigger"), "task_failed")
    sandbox.continued(request_for(start, location, kind="resume"), "Write Title")
    same("finished tasks at the end", grown(location, before, start, "main")[-1].done, 4)


@row("crew", "resume from an old checkpoint")
def old_checkpoint(sandbox: Sandbox) -> None:
    location, start, before = recorded_after(sandbox, "simple", 1)
    run = sandbox.continued(request_for(start, location, kind="resume"), "Check Write Title")
    new = grown(location, before, start, "main")
    same("reported checkpoints", [line["id"] for line in run.of("checkpoint")], [one.id for one in new])
    siblings = [saved for saved in saved_in(location) if saved.parent == start.id]
    same("continuations of the old checkpoint", len(siblings), 2)


@row("crew", "fork with edited inputs")
def edited_inputs(sandbox: Sandbox) -> None:
    location, start, before = recorded_after(sandbox, "simple", 2)
    inputs = {"topic": "tea", "year": 1999, "tags": ["x", 2]}
    edits = Edits(inputs=inputs, again=frozenset({start.tasks[0]["id"]}))
    same("named as stale", stale_in(start, inputs), [("topic", "year", "tags"), ("topic",), (), ()])
    # The third task mentions the year only in its agent's goal.
    written = after(location, 3)
    same("named as stale", stale_in(written, {"year": 1999}), [("year",), (), ("year",), ()])
    sandbox.continued(
        request_for(start, location, edits=edits, entry_point=ENTRY_POINT), "Collect Check Write Title"
    )
    prompts = sandbox.model.prompts()
    holds("the first task is asked with the new inputs", "Collect tea in 1999, ['x', 2]" in prompts[0])
    holds("an agent's role speaks of the new input", "Researcher of tea" in prompts[0])
    holds("an agent's goal speaks of the new input", "Write for 1999" in prompts[2])
    holds("an expected output speaks of the new input", "a title of 1999" in prompts[3])
    old = [prompt for prompt in prompts if "AI" in prompt or "2026" in prompt]
    same("calls that were sent an old input", old, [])
    same("saved inputs", grown(location, before, start, "try-it")[-1].root["checkpoint_inputs"], inputs)


@row("crew", "fork with edited inputs, without the project's code")
def edited_inputs_alone(sandbox: Sandbox) -> None:
    location, start, before = recorded_after(sandbox, "simple", 2)
    run = sandbox.continued(
        request_for(start, location, edits=Edits(inputs={"topic": "tea", "year": 1999})), "Write Title"
    )
    holds("what runs is asked with the new input", "Write about tea" in sandbox.model.prompts()[0])
    holds("an expected output speaks of the new input", "a title of 1999" in sandbox.model.prompts()[1])
    warnings = [line["message"] for line in run.of("warning")]
    holds(
        "the role that keeps the former value is named",
        any("agent 'Writer' still contain the former" in one for one in warnings),
    )
    last = grown(location, before, start, "try-it")[-1]
    same("a kept task's text", last.tasks[1]["description"], "Check AI")
    same("saved inputs", last.root["checkpoint_inputs"], {"topic": "tea", "year": 1999, "tags": ["a", "b"]})


@row("crew", "fork with another model and a prompt cache warm-up")
def other_model(sandbox: Sandbox) -> None:
    location, start, before = recorded_after(sandbox, "simple", 1)
    request = request_for(start, location)
    request["options"] = {"models": {"Writer": "gpt-4.1"}, "cache_warmup": "sequential"}
    run = sandbox.completed(request)
    calls = sandbox.model.requests
    same("calls of one token", [call.get("max_tokens") == 1 for call in calls], [True] * 2 + [False] * 3)
    same("models", [call["model"] for call in calls[2:]], ["gpt-4o-mini", "gpt-4.1", "gpt-4.1"])
    # Old engines keep an agent's earlier tasks in the conversation, after the same beginning.
    systems = [call["messages"][0] for call in calls]
    same("prompts sent ahead", systems[:2], systems[2:4])
    same("agents", [line["agents"] for line in run.of("cache_warmed")], [["Researcher of AI", "Writer"]])
    grown(location, before, start, "try-it")


@row("crew", "fork with one edited output")
def one_edit(sandbox: Sandbox) -> None:
    location, start, before = recorded_after(sandbox, "simple", 2)
    edits = Edits(outputs={start.tasks[1]["id"]: "my own words"})
    sandbox.continued(request_for(start, location, edits=edits), "Write Title")
    holds("the model is given the edited text", "my own words" in sandbox.model.prompts()[0])
    old = start.tasks[1]["output"]["raw"]
    holds("nobody is given the old text", not any(old in prompt for prompt in sandbox.model.prompts()))
    new = grown(location, before, start, "try-it")
    same("edited output in the first checkpoint", new[0].tasks[1]["output"]["raw"], "my own words")


@row("crew", "fork with two edited outputs that are not adjacent")
def two_edits(sandbox: Sandbox) -> None:
    location, start, before = recorded_after(sandbox, "simple", 3)
    first, second, third, _ = (task["id"] for task in start.tasks)
    edits = Edits(outputs={first: "my notes", third: "my article"}, again=frozenset({second}))
    actions = [step.action for step in plan_for(start, "crew", edits)]
    same("plan", actions, [Action.EDITED, Action.AGAIN, Action.PINNED, Action.RUNS])
    sandbox.continued(request_for(start, location, edits=edits), "Check Title")
    holds("the first edit is read", "my notes" in sandbox.model.prompts()[0])
    last = grown(location, before, start, "try-it")[-1]
    same("the pinned output", last.tasks[2]["output"]["raw"], "my article")


@row("crew", "fork with nothing left to run")
def nothing_left(sandbox: Sandbox) -> None:
    location, start, before = recorded_after(sandbox, "simple", 4)
    run = sandbox.completed(request_for(start, location))
    same("model calls", len(sandbox.model.requests), 0)
    new = grown(location, before, start, "try-it")
    same("finished tasks in each checkpoint", [saved.done for saved in new], [4])
    same("result", run.end["result"], start.tasks[3]["output"]["raw"])


@row("code", "a fork with the recorded commit")
def recorded_commit(sandbox: Sandbox) -> None:
    location, start, before = recorded_after(sandbox, "simple", 2)
    folder, variables = changed_since(PRESS, sandbox.folder, "press_parts.py")
    request = request_for(start, location, entry_point=ENTRY_POINT, folder=folder)
    sandbox.continued(request, "Write Title", **variables)
    grown(location, before, start, "try-it")

"""Crews whose tasks do not run one after the other."""

import json
from dataclasses import replace
from pathlib import Path

from quality.compatibility.rows import row
from quality.compatibility.rows.crews import after, recorded_after
from quality.compatibility.sandbox import NotPossible, Sandbox, grown, holds, same, tasks_called
from tests.engine_runs.runs import Saved, marks, request_for, saved_in
from viewer.engines.crewai.contents import contents_of
from viewer.engines.crewai.planning import plan_of, units_of
from viewer.engines.plan import Edits, Unit

# The engine's separator between the outputs that it passes to a task.
DIVIDER = "\n\n----------\n\n"


@row("task order", "hierarchical: fork with an edited output")
def hierarchical(sandbox: Sandbox) -> None:
    location, start, before = recorded_after(sandbox, "hierarchical", 2)
    edits = Edits(outputs={start.tasks[1]["id"]: "my own words"})
    for entry_point in ("", "press_orders:hierarchical"):
        sandbox.model.reset()
        branch = "own" if entry_point else "alone"
        sandbox.continued(
            request_for(start, location, branch=branch, edits=edits, entry_point=entry_point), "Write Title"
        )
        holds("the manager is given the edit", "my own words" in sandbox.model.prompts()[0])
        holds("the manager is the one asked", "Manager" in sandbox.model.prompts()[0])
        new = grown(location, before, start, branch)
        same("finished tasks at the end", new[-1].done, 4)
        before = marks(location)


@row("task order", "async tasks: resume after them, and run one again")
def asynchronous(sandbox: Sandbox) -> None:
    location, start, before = recorded_after(sandbox, "asynchronous", 3)
    sandbox.continued(
        request_for(start, location, kind="resume", entry_point="press_orders:asynchronous"), "Title"
    )
    same("finished tasks at the end", grown(location, before, start, "main")[-1].done, 4)
    sandbox.model.reset()
    before = marks(location)
    edits = Edits(again=frozenset({start.tasks[1]["id"]}), keep=frozenset({start.tasks[2]["id"]}))
    sandbox.completed(request_for(start, location, edits=edits, entry_point="press_orders:asynchronous"))
    same("tasks called for one again", tasks_called(sandbox.model), ["Check", "Title"])
    same("finished tasks at the end of the fork", grown(location, before, start, "try-it")[-1].done, 4)


@row("task order", "async tasks: resume from before them")
def before_asynchronous(sandbox: Sandbox) -> None:
    location, start, before = recorded_after(sandbox, "asynchronous", 1)
    sandbox.completed(request_for(start, location, kind="resume", entry_point="press_orders:asynchronous"))
    same("tasks called", sorted(tasks_called(sandbox.model)), ["Check", "Title", "Write"])
    same("finished tasks at the end", grown(location, before, start, "main")[-1].done, 4)


@row("task order", "async tasks: fork with an edited output of one")
def edited_asynchronous(sandbox: Sandbox) -> None:
    location, start, before = recorded_after(sandbox, "asynchronous", 3)
    _, second, third, _ = (task["id"] for task in start.tasks)
    for entry_point in ("press_orders:asynchronous", ""):
        sandbox.model.reset()
        branch = "own" if entry_point else "alone"
        edits = Edits(outputs={second: "my own check"})
        steps = plan_of("crew", units_in(start), edits)
        same("planned", [step.action.value for step in steps], ["kept", "edited", "kept", "runs"])
        same("the task beside it", steps[2].unit, third)
        sandbox.continued(
            request_for(start, location, branch=branch, edits=edits, steps=steps, entry_point=entry_point),
            "Title",
        )
        last = grown(location, before, start, branch)[-1]
        same("the edited output", last.tasks[1]["output"]["raw"], "my own check")
        same("kept outputs", [task["output"]["raw"] for task in last.tasks[::2]], raw_of(start)[::2])
        before = marks(location)


@row("task order", "async tasks: resume with only the second finished")
def half_asynchronous(sandbox: Sandbox) -> None:
    location = sandbox.recorded("joining")
    start = next(one for one in saved_in(location) if one.done == 3)
    title = prompts_for("Title", sandbox, location)
    first, second, third, _ = raw_of(start)
    # Up to 1.14.4, tasks after asynchronous ones read only these.
    context = second + DIVIDER + third
    if first in title:
        context = first + DIVIDER + context
    holds(f"the recorded order is that of the tasks: {title}", context in title)
    half = finished_without(start, 1)
    before = marks(location)
    for entry_point in ("press_orders:joining", ""):
        sandbox.model.reset()
        branch = "own" if entry_point else "alone"
        request = request_for(half, location, branch=branch, entry_point=entry_point)
        sandbox.completed(request)
        asked = next(prompt for prompt in sandbox.model.prompts() if "Title" in prompt)
        again = raw_of(grown(location, before, half, branch)[-1])[1]
        holds(f"the context is as recorded: {asked}", context.replace(second, again) in asked)
        same("whether the first is in it", first in asked, first in title)
        before = marks(location)


def finished_without(saved: Saved, position: int) -> Saved:
    """Return the checkpoint, rewritten without the output of the task at this position, from 0."""
    body = json.loads(Path(saved.source).read_bytes())
    next(one for one in body["entities"] if one["entity_type"] == "crew")["tasks"][position]["output"] = None
    Path(saved.source).write_text(json.dumps(body))
    return replace(saved, body=body)


def prompts_for(word: str, sandbox: Sandbox, location: Path) -> str:
    """Return the context that a recorded task with this word received."""
    events = (node["event"] for node in saved_in(location)[-1].body["event_record"]["nodes"].values())
    started = (event for event in events if event["type"] == "task_started")
    return next(str(event["context"]) for event in started if word in event["task_name"])


def units_in(saved: Saved) -> list[Unit]:
    """Return the units of a crew, as a checkpoint has them."""
    return units_of(contents_of(saved.body))


def raw_of(saved: Saved) -> list[str]:
    return [task["output"]["raw"] if task["output"] else "" for task in saved.tasks]


@row("task order", "conditional tasks")
def conditional(sandbox: Sandbox) -> None:
    location, start, before = recorded_after(sandbox, "conditional", 1)
    sandbox.continued(
        request_for(start, location, kind="resume", entry_point="press_orders:conditional"), "Write Title"
    )
    new = grown(location, before, start, "main")
    has_output = [task["output"] is not None for task in new[-1].tasks]
    same("outputs at the end", has_output, [True, False, True, True])


@row("task order", "conditional tasks: what finished after a skipped one is kept")
def behind_conditional(sandbox: Sandbox) -> None:
    location, start, before = recorded_after(sandbox, "conditional", 2)
    same("outputs at its start", [bool(raw) for raw in raw_of(start)], [True, False, True, False])
    for entry_point in ("press_orders:conditional", ""):
        sandbox.model.reset()
        branch = "own" if entry_point else "alone"
        run = sandbox.continued(request_for(start, location, branch=branch, entry_point=entry_point), "Title")
        holds("the kept output is read", raw_of(start)[2] in sandbox.model.prompts()[0])
        last = grown(location, before, start, branch)[-1]
        same("outputs at the end", [bool(raw) for raw in raw_of(last)], [True, False, True, True])
        before = marks(location)
    said = [line["message"] for line in run.of("warning")]
    holds(f"it is reported: {said}", any("stay skipped: 2" in text for text in said))


@row("task order", "conditional tasks: fork with an edited output")
def edited_conditional(sandbox: Sandbox) -> None:
    location, start, before = recorded_after(sandbox, "conditional", 2)
    edits = Edits(outputs={start.tasks[0]["id"]: "my notes"})
    sandbox.continued(
        request_for(start, location, edits=edits, entry_point="press_orders:conditional"), "Write Title"
    )
    holds("the edit is read", "my notes" in sandbox.model.prompts()[0])
    last = grown(location, before, start, "try-it")[-1]
    same("outputs at the end", [bool(raw) for raw in raw_of(last)], [True, False, True, True])


@row("task order", "conditional tasks ahead, without the project's code")
def conditional_alone(sandbox: Sandbox) -> None:
    location = sandbox.recorded("conditional")
    start = after(location, 1)
    kept = [task.get("condition") for task in start.tasks]
    same("conditions that the checkpoint keeps", kept, [None] * 4)
    raise NotPossible("a checkpoint does not keep that a task has a condition: it runs without one")

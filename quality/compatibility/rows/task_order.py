"""Crews whose tasks do not run one after the other."""

from quality.compatibility.rows import row
from quality.compatibility.rows.crews import after, recorded_after
from quality.compatibility.sandbox import NotPossible, Sandbox, grown, holds, same, tasks_called
from tests.engine_runs.runs import Saved, marks, request_for
from viewer.engines.planning.plan import Edits


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
        edits = Edits(outputs={second: "my own check"}, keep=frozenset({third}))
        sandbox.continued(
            request_for(start, location, branch=branch, edits=edits, entry_point=entry_point), "Title"
        )
        last = grown(location, before, start, branch)[-1]
        same("the edited output", last.tasks[1]["output"]["raw"], "my own check")
        same("kept outputs", [task["output"]["raw"] for task in last.tasks[::2]], raw_of(start)[::2])
        before = marks(location)


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

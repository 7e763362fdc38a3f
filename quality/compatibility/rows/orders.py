"""Crews whose tasks do not simply follow each other."""

from quality.compatibility.rows import row
from quality.compatibility.rows.crews import after
from quality.compatibility.stage import NotPossible, Stage, grown, holds, same, succeeded, tasks_called
from tests.runners.children import Saved, marks, request_for
from viewer.engines.plan import Edits


@row("orders", "hierarchical: fork with an edited output")
def hierarchical(stage: Stage) -> None:
    location = stage.recorded("hierarchical")
    start, before = after(location, 2), marks(location)
    edits = Edits(outputs={start.tasks[1]["id"]: "my own words"})
    for entry_point in ("", "press_orders:hierarchical"):
        stage.model.forget()
        branch = "own" if entry_point else "alone"
        run = stage.run(request_for(start, location, branch=branch, edits=edits, entry_point=entry_point))
        succeeded(run)
        same("tasks called", tasks_called(stage.model), ["Write", "Title"])
        holds("the manager is given the edit", "my own words" in stage.model.prompts()[0])
        holds("the manager is the one asked", "Manager" in stage.model.prompts()[0])
        new = grown(location, before, start, branch)
        same("finished tasks at the end", new[-1].done, 4)
        before = marks(location)


@row("orders", "async tasks: resume behind them, and one of them again")
def asynchronous(stage: Stage) -> None:
    location = stage.recorded("asynchronous")
    start, before = after(location, 3), marks(location)
    run = stage.run(request_for(start, location, kind="resume", entry_point="press_orders:asynchronous"))
    succeeded(run)
    same("tasks called", tasks_called(stage.model), ["Title"])
    same("finished tasks at the end", grown(location, before, start, "main")[-1].done, 4)
    stage.model.forget()
    before = marks(location)
    edits = Edits(again=frozenset({start.tasks[1]["id"]}), keep=frozenset({start.tasks[2]["id"]}))
    run = stage.run(request_for(start, location, edits=edits, entry_point="press_orders:asynchronous"))
    succeeded(run)
    same("tasks called for one again", tasks_called(stage.model), ["Check", "Title"])
    same("finished tasks at the end of the fork", grown(location, before, start, "try-it")[-1].done, 4)


@row("orders", "async tasks: resume from before them")
def before_asynchronous(stage: Stage) -> None:
    location = stage.recorded("asynchronous")
    start, before = after(location, 1), marks(location)
    run = stage.run(request_for(start, location, kind="resume", entry_point="press_orders:asynchronous"))
    succeeded(run)
    same("tasks called", sorted(tasks_called(stage.model)), ["Check", "Title", "Write"])
    same("finished tasks at the end", grown(location, before, start, "main")[-1].done, 4)


@row("orders", "async tasks: fork with an edited output of one")
def edited_asynchronous(stage: Stage) -> None:
    location = stage.recorded("asynchronous")
    start, before = after(location, 3), marks(location)
    _, second, third, _ = (task["id"] for task in start.tasks)
    for entry_point in ("press_orders:asynchronous", ""):
        stage.model.forget()
        branch = "own" if entry_point else "alone"
        edits = Edits(outputs={second: "my own check"}, keep=frozenset({third}))
        run = stage.run(request_for(start, location, branch=branch, edits=edits, entry_point=entry_point))
        succeeded(run)
        same("tasks called", tasks_called(stage.model), ["Title"])
        last = grown(location, before, start, branch)[-1]
        same("the edited output", last.tasks[1]["output"]["raw"], "my own check")
        same("kept outputs", [task["output"]["raw"] for task in last.tasks[::2]], raw_of(start)[::2])
        before = marks(location)


def raw_of(saved: Saved) -> list[str]:
    return [task["output"]["raw"] if task["output"] else "" for task in saved.tasks]


@row("orders", "conditional tasks")
def conditional(stage: Stage) -> None:
    location = stage.recorded("conditional")
    start, before = after(location, 1), marks(location)
    run = stage.run(request_for(start, location, kind="resume", entry_point="press_orders:conditional"))
    succeeded(run)
    same("tasks called", tasks_called(stage.model), ["Write", "Title"])
    new = grown(location, before, start, "main")
    has_output = [task["output"] is not None for task in new[-1].tasks]
    same("outputs at the end", has_output, [True, False, True, True])


@row("orders", "conditional tasks: what finished behind one that was passed over is kept")
def behind_conditional(stage: Stage) -> None:
    location = stage.recorded("conditional")
    start, before = after(location, 2), marks(location)
    same("outputs at its start", [bool(raw) for raw in raw_of(start)], [True, False, True, False])
    for entry_point in ("press_orders:conditional", ""):
        stage.model.forget()
        branch = "own" if entry_point else "alone"
        run = stage.run(request_for(start, location, branch=branch, entry_point=entry_point))
        succeeded(run)
        same("tasks called", tasks_called(stage.model), ["Title"])
        holds("the kept output is read", raw_of(start)[2] in stage.model.prompts()[0])
        last = grown(location, before, start, branch)[-1]
        same("outputs at the end", [bool(raw) for raw in raw_of(last)], [True, False, True, True])
        before = marks(location)
    said = [line["message"] for line in run.of("warning")]
    holds(f"it is told: {said}", any("are passed over: 2" in words for words in said))


@row("orders", "conditional tasks: fork with an edited output")
def edited_conditional(stage: Stage) -> None:
    location = stage.recorded("conditional")
    start, before = after(location, 2), marks(location)
    edits = Edits(outputs={start.tasks[0]["id"]: "my notes"})
    run = stage.run(request_for(start, location, edits=edits, entry_point="press_orders:conditional"))
    succeeded(run)
    same("tasks called", tasks_called(stage.model), ["Write", "Title"])
    holds("the edit is read", "my notes" in stage.model.prompts()[0])
    last = grown(location, before, start, "try-it")[-1]
    same("outputs at the end", [bool(raw) for raw in raw_of(last)], [True, False, True, True])


@row("orders", "conditional tasks that lie ahead, without the project's code")
def conditional_alone(stage: Stage) -> None:
    location = stage.recorded("conditional")
    start = after(location, 1)
    kept = [task.get("condition") for task in start.tasks]
    same("conditions that the checkpoint keeps", kept, [None] * 4)
    raise NotPossible("a checkpoint does not keep that a task has a condition: it runs without one")

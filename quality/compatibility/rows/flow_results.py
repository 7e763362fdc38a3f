"""Flows whose methods return more than text, start with a router, or ran a crew."""

import shutil
from pathlib import Path
from typing import Any

from quality.compatibility.rows import row
from quality.compatibility.rows.flows import after_method, ran, resumed_at
from quality.compatibility.sandbox import NotPossible, Sandbox, grown, holds, missing, same, tasks_called
from tests.engine_runs.runs import Saved, marks, request_for, saved_in
from viewer.engines.plan import Edits

DESK = "press_results:DeskFlow"
FACT_METHODS = {"find", "gather", "guess", "add", "weigh"}


@row("flow", "results are restored as their classes")
def classes(sandbox: Sandbox) -> None:
    recorded = sandbox.recorded("facts")
    for method, asked in (("gather", "Add 7"), ("guess", "Weigh dict")):
        location = Path(shutil.copytree(recorded, recorded.with_name(method)))
        sandbox.model.reset()
        run, start = resumed_at(sandbox, location, "press_results:FactFlow", method)
        # Two methods run at the same time. The progress of the other one varies.
        finished = set(start.root["checkpoint_completed_methods"])
        same("methods", ran(run), sorted(FACT_METHODS - finished))
        same("model calls", len(sandbox.model.requests), len(FACT_METHODS - finished))
        holds(f"the model is asked: {asked}", any(asked in prompt for prompt in sandbox.model.prompts()))
        said = [line["message"] for line in run.of("warning")]
        same(
            "reported results without a class",
            ["guess" in text for text in said],
            [True] * ("guess" in finished),
        )


@row("flow", "a result has the class in its listener's annotation")
def class_of_listener(sandbox: Sandbox) -> None:
    location = sandbox.recorded("read")
    run, _start = resumed_at(sandbox, location, "press_results:ReadFlow", "find")
    same("model calls", sandbox.model.prompts(), ["Read 3"])
    same("warnings", run.of("warning"), [])


@row("flow", "a preflight check names the method with a missing annotation")
def missing_annotation(sandbox: Sandbox) -> None:
    location = sandbox.recorded("facts")
    start = after_method(location, "guess")
    request = request_for(start, location, entry_point="press_results:FactFlow")
    check = sandbox.run({**request, "kind": "preflight"})
    notes = check.of("preflight")[0]["report"]["notes"]
    same("notes", [(note["what"], note["detail"]) for note in notes], [("untyped", "guess")])


@row("flow", "a result that is a dictionary draws no warning")
def plain_results(sandbox: Sandbox) -> None:
    location = sandbox.recorded("plain flow")
    run, _start = resumed_at(sandbox, location, "press_results:PlainFlow", "passed_on")
    same("model calls", sandbox.model.prompts(), ["Last 1"])
    same("warnings", run.of("warning"), [])


@row("flow", "a router as the start: its route is followed")
def at_once(sandbox: Sandbox) -> None:
    location = sandbox.recorded("at once")
    finished = [saved.root["checkpoint_completed_methods"] or [] for saved in saved_in(location)]
    if not any("go_left" in methods for methods in finished):
        raise NotPossible("this version follows no route of a start: the flow's own run ends there, too")
    run, _ = resumed_at(sandbox, location, "press_results:AtOnceFlow", "turn")
    same("methods", ran(run), ["arrive", "go_left"])
    sandbox.model.reset()
    start = after_method(location, "turn", "go_left")
    request = request_for(start, location, branch="further", entry_point="press_results:AtOnceFlow")
    sandbox.completed(request)
    same("model calls further on", sandbox.model.prompts(), ["Arrive"])


def inside(sandbox: Sandbox, done: int) -> tuple[Path, Saved, dict[str, Any]]:
    """Return a recorded run, its checkpoint after this many tasks of the inner crew, and that crew."""
    location = sandbox.recorded("desk")
    for saved in saved_in(location):
        crews = [entity for entity in saved.body["entities"] if entity["entity_type"] == "crew"]
        if crews and sum(bool(task["output"]) for task in crews[0]["tasks"]) == done:
            return location, saved, crews[0]
    raise missing(location, "checkpoint inside a flow's crew")


@row("flow", "an inner crew: resume in its middle")
def middle(sandbox: Sandbox) -> None:
    location, start, crew = inside(sandbox, 2)
    before = marks(location)
    request = request_for(start, location, kind="resume", entry_point=DESK)
    run = sandbox.completed(request, PRESS_STORE=str(location))
    same("tasks called", tasks_called(sandbox.model)[:1], ["Write"])
    same("model calls", len(sandbox.model.requests), 2)
    holds("the crew's kept outputs are read", crew["tasks"][1]["output"]["raw"] in sandbox.model.prompts()[0])
    said = [line["message"] for line in run.of("warning")]
    holds(f"it is reported what is kept: {said}", any("are kept (1, 2)" in text for text in said))
    new = grown(location, before, start, "main")
    same("checkpoints written", new[0].body.get("trigger"), "task_completed")
    same("completed methods", len(new[-1].root["checkpoint_completed_methods"]), 3)


@row("flow", "an inner crew finished, its method did not")
def end_of_crew(sandbox: Sandbox) -> None:
    location, start, _ = inside(sandbox, 3)
    request = request_for(start, location, kind="resume", entry_point=DESK)
    sandbox.completed(request, PRESS_STORE=str(location))
    same("model calls", [prompt[:5] for prompt in sandbox.model.prompts()], ["Close"])


@row("flow", "an inner crew starts again with an edited state")
def from_start(sandbox: Sandbox) -> None:
    location, start, _ = inside(sandbox, 2)
    request = request_for(start, location, edits=Edits(state={"topic": "tea"}), entry_point=DESK)
    run = sandbox.completed(request, PRESS_STORE=str(location))
    same("model calls", len(sandbox.model.requests), 4)
    holds("it is reported", any("from its start" in line["message"] for line in run.of("warning")))

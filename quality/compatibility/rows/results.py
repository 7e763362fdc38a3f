"""Flows whose finished methods hand on more than texts, begin with a route, or were inside a crew."""

import shutil
from pathlib import Path
from typing import Any

from quality.compatibility.rows import row
from quality.compatibility.rows.flows import after_method, ran, resumed_at
from quality.compatibility.stage import (
    NotPossible,
    Stage,
    grown,
    holds,
    missing,
    same,
    succeeded,
    tasks_called,
)
from tests.runners.children import Saved, marks, request_for, saved_in
from viewer.engines.plan import Edits

DESK = "press_results:DeskFlow"
FACT_METHODS = {"find", "gather", "guess", "add", "weigh"}


@row("flow", "results are given back as their classes")
def classes(stage: Stage) -> None:
    recorded = stage.recorded("facts")
    for method, asked in (("gather", "Add 7"), ("guess", "Weigh dict")):
        location = Path(shutil.copytree(recorded, recorded.with_name(method)))
        stage.model.forget()
        run, start = resumed_at(stage, location, "press_results:FactFlow", method)
        # Two methods run at once: how far the other had come by then is theirs.
        finished = set(start.root["checkpoint_completed_methods"])
        same("methods", ran(run), sorted(FACT_METHODS - finished))
        same("model calls", len(stage.model.requests), len(FACT_METHODS - finished))
        holds(f"the model is asked: {asked}", any(asked in prompt for prompt in stage.model.prompts()))
        said = [line["message"] for line in run.of("warning")]
        same(
            "told of what has no class", ["guess" in words for words in said], [True] * ("guess" in finished)
        )


@row("flow", "a result has the class that its listener's parameter names")
def class_of_listener(stage: Stage) -> None:
    location = stage.recorded("read")
    run, _start = resumed_at(stage, location, "press_results:ReadFlow", "find")
    same("model calls", stage.model.prompts(), ["Read 3"])
    same("warnings", run.of("warning"), [])


@row("flow", "a preflight names the method whose annotation is missing")
def missing_annotation(stage: Stage) -> None:
    location = stage.recorded("facts")
    start = after_method(location, "guess")
    request = request_for(start, location, entity="flow", entry_point="press_results:FactFlow")
    look = stage.run({**request, "kind": "preflight"})
    notes = look.of("preflight")[0]["report"]["notes"]
    same("notes", [(note["what"], note["detail"]) for note in notes], [("untyped", "guess")])


@row("flow", "a start that is a router: its route is followed")
def at_once(stage: Stage) -> None:
    location = stage.recorded("at once")
    finished = [saved.root["checkpoint_completed_methods"] or [] for saved in saved_in(location)]
    if not any("go_left" in methods for methods in finished):
        raise NotPossible("this version follows no route of a start: the flow's own run ends there, too")
    run, _ = resumed_at(stage, location, "press_results:AtOnceFlow", "turn")
    same("methods", ran(run), ["arrive", "go_left"])
    stage.model.forget()
    start = after_method(location, "turn", "go_left")
    request = request_for(
        start, location, entity="flow", branch="further", entry_point="press_results:AtOnceFlow"
    )
    succeeded(stage.run(request))
    same("model calls further on", stage.model.prompts(), ["Arrive"])


def inside(stage: Stage, done: int) -> tuple[Saved, dict[str, Any]]:
    """In the middle of the inner crew, after so many of its tasks."""
    location = stage.recorded("desk")
    for saved in saved_in(location):
        crews = [entity for entity in saved.body["entities"] if entity["entity_type"] == "crew"]
        if crews and sum(bool(task["output"]) for task in crews[0]["tasks"]) == done:
            return saved, crews[0]
    raise missing(location, "checkpoint inside a flow's crew")


@row("flow", "a crew inside: resume in its middle")
def middle(stage: Stage) -> None:
    start, crew = inside(stage, 2)
    location = stage.folder / "desk.json/store"
    before = marks(location)
    request = request_for(start, location, entity="flow", kind="resume", entry_point=DESK)
    run = stage.run(request, PRESS_STORE=str(location))
    succeeded(run)
    same("tasks called", tasks_called(stage.model)[:1], ["Write"])
    same("model calls", len(stage.model.requests), 2)
    holds("the crew's kept outputs are read", crew["tasks"][1]["output"]["raw"] in stage.model.prompts()[0])
    said = [line["message"] for line in run.of("warning")]
    holds(f"it is told what is kept: {said}", any("are kept (1, 2)" in words for words in said))
    new = grown(location, before, start, "main")
    same("checkpoints written", new[0].body.get("trigger"), "task_completed")
    same("finished at the end", len(new[-1].root["checkpoint_completed_methods"]), 3)


@row("flow", "a crew inside: its end was reached, its method's was not")
def end_of_crew(stage: Stage) -> None:
    start, _ = inside(stage, 3)
    location = stage.folder / "desk.json/store"
    request = request_for(start, location, entity="flow", kind="resume", entry_point=DESK)
    succeeded(stage.run(request, PRESS_STORE=str(location)))
    same("model calls", [prompt[:5] for prompt in stage.model.prompts()], ["Close"])


@row("flow", "a crew inside: an edited state has it begin anew")
def anew(stage: Stage) -> None:
    start, _ = inside(stage, 2)
    location = stage.folder / "desk.json/store"
    request = request_for(
        start, location, entity="flow", edits=Edits(state={"topic": "tea"}), entry_point=DESK
    )
    run = stage.run(request, PRESS_STORE=str(location))
    succeeded(run)
    same("model calls", len(stage.model.requests), 4)
    holds("it is told", any("from its start" in line["message"] for line in run.of("warning")))

"""Crews and flows that files declare: ``crew.jsonc`` and ``flow.yaml``, which CrewAI reads since 1.15."""

from pathlib import Path

from quality.compatibility.rows import row
from quality.compatibility.rows.flows import after_method, ran
from quality.compatibility.stage import Failed, NotPossible, Stage, grown, holds, missing, same, succeeded
from tests.runners.children import DESK, LINE, Saved, marks, new_run_request, request_for, saved_in
from viewer.engines.plan import Edits

FLOW = "src/line/flow.yaml"
GIVEN = {"audience": "children", "since": "1999"}
# What a version without such files says when one is recorded.
UNKNOWN = ("cannot import name 'load_crew'", "AttributeError: from_declaration")


def recorded(stage: Stage, kind: str, entity: str, entry_point: str, folder: Path) -> Path:
    """A recorded run. Raises NotPossible if this version reads no such files, and refuses them."""
    try:
        return stage.recorded(kind)
    except Failed as failed:
        if not any(words in str(failed) for words in UNKNOWN):
            raise
    run = stage.run(new_run_request(stage.folder / "none", entity, entry_point, {}, folder=folder))
    holds(f"it is refused: {run.end['error']}", "needs 1.15 or newer" in run.end["error"])
    same("model calls", len(stage.model.requests), 0)
    raise NotPossible("this version reads no crew.jsonc and no flow.yaml: a run is refused before it begins")


def after_task(location: Path, done: int) -> Saved:
    for saved in saved_in(location):
        if saved.done == done and saved.body.get("trigger") == "task_completed":
            return saved
    raise missing(location, "checkpoint of such a crew")


@row("declared", "crew.jsonc: resume with its guardrail, tool and context")
def crew(stage: Stage) -> None:
    location = recorded(stage, "desk crew", "crew", "crew.jsonc", DESK)
    start, before = after_task(location, 1), marks(location)
    run = stage.run(request_for(start, location, kind="resume", entry_point="crew.jsonc", folder=DESK))
    succeeded(run)
    same("model calls", len(stage.model.requests), 2)
    same("parts called", stage.traced(), ["guardrail"])
    new = grown(location, before, start, "main")
    asked = stage.model.prompts()[1]
    holds("the last task reads the first", start.tasks[0]["output"]["raw"] in asked)
    holds("and not the second", new[-1].tasks[1]["output"]["raw"] not in asked)


@row("declared", "crew.jsonc: fork with edited inputs, a custom: tool and a callback")
def edited_crew(stage: Stage) -> None:
    location = recorded(stage, "desk crew", "crew", "crew.jsonc", DESK)
    start, before = after_task(location, 1), marks(location)
    edits = Edits(inputs={"topic": "tea"}, again=frozenset([start.tasks[0]["id"]]))
    stage.model.calls_tools = True
    succeeded(stage.run(request_for(start, location, edits=edits, entry_point="crew.jsonc", folder=DESK)))
    same("parts called", stage.traced(), ["archive words", "callback collect", "guardrail"])
    holds("the edit reaches the task", "Collect tea in 2026" in stage.model.prompts()[0])
    holds("and its agent", "Researcher of tea" in stage.model.prompts()[0])
    grown(location, before, start, "try-it")


@row("declared", "crew.jsonc: new run with the inputs of its file")
def new_crew(stage: Stage) -> None:
    recorded(stage, "desk crew", "crew", "crew.jsonc", DESK)
    location = stage.folder / "own"
    asked = new_run_request(location, "crew", "crew.jsonc", {**GIVEN, "year": 1999}, folder=DESK)
    succeeded(stage.run(asked))
    same("model calls", len(stage.model.requests), 3)
    holds("defaults and edits reach the task", "Collect AI in 1999" in stage.model.prompts()[0])


@row("declared", "flow.yaml: resume behind its first method")
def flow(stage: Stage) -> None:
    location = recorded(stage, "line", "flow", FLOW, LINE)
    start, before = after_method(location, "outline"), marks(location)
    request = request_for(start, location, entity="flow", kind="resume", entry_point=FLOW, folder=LINE)
    run = stage.run(request)
    succeeded(run)
    same("methods", ran(run), ["publish", "turn", "write_long"])
    same("model calls", len(stage.model.requests), 2)
    outline = start.root["checkpoint_method_outputs"][0]["output"]["text"]
    holds("the crew inside is handed what was found", f"from {outline}" in stage.model.prompts()[0])
    grown(location, before, start, "main")


@row("declared", "flow.yaml: fork with an edited state, from a function that returns it")
def edited_flow(stage: Stage) -> None:
    location = recorded(stage, "line", "flow", FLOW, LINE)
    start, before = after_method(location, "outline"), marks(location)
    edits = Edits(state={"year": 1999, "topic": "tea"})
    request = request_for(
        start, location, entity="flow", edits=edits, entry_point="line.steps:make_flow", folder=LINE
    )
    succeeded(stage.run(request))
    same("model calls", stage.model.prompts(), ["Briefly tea"])
    grown(location, before, start, "try-it")


@row("declared", "flow.yaml: new run with the state of its file")
def new_flow(stage: Stage) -> None:
    recorded(stage, "line", "flow", FLOW, LINE)
    location = stage.folder / "own"
    succeeded(stage.run(new_run_request(location, "flow", FLOW, {"year": 1999}, folder=LINE)))
    same("model calls", stage.model.prompts(), ["Outline AI", "Briefly AI"])

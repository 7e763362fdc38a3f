"""Crews and flows declared in files: ``crew.jsonc`` and ``flow.yaml``, which CrewAI reads since 1.15."""

from pathlib import Path

from quality.compatibility.rows import row
from quality.compatibility.rows.crews import after
from quality.compatibility.rows.flows import after_method, ran
from quality.compatibility.sandbox import Failed, NotPossible, Sandbox, grown, holds, same
from tests.engine_runs.runs import DESK, LINE, marks, new_run_request, request_for, saved_in
from viewer.engines.plan import Edits

FLOW = "src/line/flow.yaml"
GIVEN = {"audience": "children", "since": "1999"}
# The message of a version that does not support such files.
UNKNOWN = ("cannot import name 'load_crew'", "AttributeError: from_declaration")


def recorded(sandbox: Sandbox, kind: str, entity: str, entry_point: str, folder: Path) -> Path:
    """Return a recorded run. Raise NotPossible if this version does not support such files."""
    try:
        return sandbox.recorded(kind)
    except Failed as failed:
        if not any(text in str(failed) for text in UNKNOWN):
            raise
    run = sandbox.run(new_run_request(sandbox.folder / "none", entity, entry_point, {}, folder=folder))
    holds(f"it is refused: {run.end['error']}", "needs 1.15 or newer" in run.end["error"])
    same("model calls", len(sandbox.model.requests), 0)
    raise NotPossible("this version reads no crew.jsonc and no flow.yaml: a run is refused before it begins")


@row("declared", "crew.jsonc: resume with its guardrail, tool and context")
def crew(sandbox: Sandbox) -> None:
    location = recorded(sandbox, "desk crew", "crew", "crew.jsonc", DESK)
    start, before = after(location, 1), marks(location)
    sandbox.completed(request_for(start, location, kind="resume", entry_point="crew.jsonc", folder=DESK))
    same("model calls", len(sandbox.model.requests), 2)
    same("parts called", sandbox.traced(), ["guardrail"])
    new = grown(location, before, start, "main")
    same("finished tasks at the end", new[-1].done, 3)
    asked = sandbox.model.prompts()[1]
    holds("the last task is asked with the recorded inputs", "Write about AI for children" in asked)
    holds("the last task reads the first", start.tasks[0]["output"]["raw"] in asked)
    holds("and not the second", new[-1].tasks[1]["output"]["raw"] not in asked)


@row("declared", "crew.jsonc: fork with edited inputs, a custom: tool and a callback")
def edited_crew(sandbox: Sandbox) -> None:
    location = recorded(sandbox, "desk crew", "crew", "crew.jsonc", DESK)
    start, before = after(location, 1), marks(location)
    edits = Edits(inputs={"topic": "tea"}, again=frozenset([start.tasks[0]["id"]]))
    sandbox.model.calls_tools = 1
    sandbox.completed(request_for(start, location, edits=edits, entry_point="crew.jsonc", folder=DESK))
    same("parts called", sandbox.traced(), ["archive words", "callback collect", "guardrail"])
    holds("the edit reaches the task", "Collect tea in 2026" in sandbox.model.prompts()[0])
    holds("and its agent", "Researcher of tea" in sandbox.model.prompts()[0])
    grown(location, before, start, "try-it")


@row("declared", "crew.jsonc: new run with the inputs from its file")
def new_crew(sandbox: Sandbox) -> None:
    recorded(sandbox, "desk crew", "crew", "crew.jsonc", DESK)
    location = sandbox.folder / "own"
    asked = new_run_request(location, "crew", "crew.jsonc", {**GIVEN, "year": 1999}, folder=DESK)
    sandbox.completed(asked)
    same("model calls", len(sandbox.model.requests), 3)
    holds("defaults and edits reach the task", "Collect AI in 1999" in sandbox.model.prompts()[0])
    inputs = saved_in(location)[-1].root["checkpoint_inputs"]
    same("saved inputs", inputs, {**GIVEN, "topic": "AI", "year": 1999})


@row("declared", "flow.yaml: resume after its first method")
def flow(sandbox: Sandbox) -> None:
    location = recorded(sandbox, "line", "flow", FLOW, LINE)
    start, before = after_method(location, "outline"), marks(location)
    request = request_for(start, location, kind="resume", entry_point=FLOW, folder=LINE)
    run = sandbox.completed(request)
    same("methods", ran(run), ["publish", "turn", "write_long"])
    same("model calls", len(sandbox.model.requests), 2)
    outline = start.root["checkpoint_method_outputs"][0]["output"]["text"]
    holds(
        "the crew inside is handed what was found",
        f"Write about bees from {outline}" in sandbox.model.prompts()[0],
    )
    holds("the state has each result", "Publish bees of 2026, 3 words" in sandbox.model.prompts()[1])
    same("warnings", run.of("warning"), [])
    grown(location, before, start, "main")


@row("declared", "flow.yaml: fork with an edited state, from a function that returns the flow")
def edited_flow(sandbox: Sandbox) -> None:
    location = recorded(sandbox, "line", "flow", FLOW, LINE)
    start, before = after_method(location, "outline"), marks(location)
    edits = Edits(state={"year": 1999, "topic": "tea"})
    request = request_for(start, location, edits=edits, entry_point="line.steps:make_flow", folder=LINE)
    sandbox.completed(request)
    same("model calls", sandbox.model.prompts(), ["Briefly tea"])
    new = grown(location, before, start, "try-it")
    same("edited state in the first checkpoint", new[0].root["checkpoint_state"]["year"], 1999)


@row("declared", "flow.yaml: new run with the state from its file")
def new_flow(sandbox: Sandbox) -> None:
    recorded(sandbox, "line", "flow", FLOW, LINE)
    location = sandbox.folder / "own"
    run = sandbox.completed(new_run_request(location, "flow", FLOW, {"year": 1999}, folder=LINE))
    same("model calls", sandbox.model.prompts(), ["Outline AI", "Briefly AI"])
    steps = run.of("steps")[0]["steps"]
    same("first steps", [step["title"] for step in steps[:2]], ["outline", "turn"])

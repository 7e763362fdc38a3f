"""Crews with JSON or pydantic outputs."""

import json

from quality.compatibility.rows import row
from quality.compatibility.rows.crews import recorded_after
from quality.compatibility.sandbox import NotPossible, Sandbox, grown, holds, same, succeeded, tasks_called
from tests.engine_runs.runs import marks, request_for
from viewer.engines.plan import Edits

# Old engines do not restore schemas. With the entry point, the class is available.
UNABLE = "cannot restore the checkpoint"
FACT = {"text": "my own fact", "score": 9}


@row("outputs", "edited JSON output")
def edited_json(sandbox: Sandbox) -> None:
    edited(sandbox, "json", f"json {FACT}")


@row("outputs", "edited pydantic output")
def edited_pydantic(sandbox: Sandbox) -> None:
    edited(sandbox, "pydantic", "pydantic Fact(text='my own fact', score=9)")


def edited(sandbox: Sandbox, kind: str, held: str) -> None:
    location, start, before = recorded_after(sandbox, kind, 2)
    edits = Edits(outputs={start.tasks[1]["id"]: {"json": FACT}})
    entry_point = f"press_parts:with_{kind}"
    sandbox.continued(request_for(start, location, edits=edits, entry_point=entry_point), "Write Title")
    holds("the model is given the edit", "my own fact" in sandbox.model.prompts()[0])
    output = grown(location, before, start, "try-it")[0].tasks[1]["output"]
    same("raw", json.loads(output["raw"]), FACT)
    same("what the run holds of it", sandbox.traced(), [held])


@row("outputs", "an edit that does not fit the schema is refused")
def unfit(sandbox: Sandbox) -> None:
    location, start, before = recorded_after(sandbox, "pydantic", 2)
    edits = Edits(outputs={start.tasks[1]["id"]: {"json": {"text": "no score"}}})
    for entry_point in ("", "press_parts:with_pydantic"):
        reasons = ["task 2 is invalid"] if entry_point else ["task 2 is invalid", UNABLE]
        sandbox.refused(request_for(start, location, edits=edits, entry_point=entry_point), *reasons)
    same("files changed", marks(location), before)


@row("outputs", "a JSON task runs again, without the project's code")
def again(sandbox: Sandbox) -> None:
    location, start, before = recorded_after(sandbox, "pydantic", 2)
    edits = Edits(again=frozenset({start.tasks[1]["id"]}))
    run = sandbox.run(request_for(start, location, edits=edits))
    if UNABLE in run.end["error"]:
        same("model calls when refused", len(sandbox.model.requests), 0)
        raise NotPossible(
            "this version restores no task's schema: it is refused, and asks for the entry point"
        )
    succeeded(run)
    same("tasks called", tasks_called(sandbox.model), ["Check", "Write", "Title"])
    output = grown(location, before, start, "try-it")[-1].tasks[1]["output"]
    holds("its answer fits the schema", set(json.loads(output["raw"])) == {"text", "score"})

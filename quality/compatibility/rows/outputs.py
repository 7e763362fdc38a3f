"""Crews whose outputs are JSON or a pydantic model."""

import json

from quality.compatibility.rows import row
from quality.compatibility.rows.crews import after
from quality.compatibility.stage import NotPossible, Stage, grown, holds, same, succeeded, tasks_called
from tests.runners.children import marks, request_for
from viewer.engines.plan import Edits

# Old engines restore no schema; naming the entry point brings the class.
UNABLE = "cannot restore the checkpoint"
FACT = {"text": "my own fact", "score": 9}


@row("outputs", "edited JSON output")
def edited_json(stage: Stage) -> None:
    edited(stage, "json", f"json {FACT}")


@row("outputs", "edited pydantic output")
def edited_pydantic(stage: Stage) -> None:
    edited(stage, "pydantic", "pydantic Fact(text='my own fact', score=9)")


def edited(stage: Stage, kind: str, held: str) -> None:
    location = stage.recorded(kind)
    start, before = after(location, 2), marks(location)
    edits = Edits(outputs={start.tasks[1]["id"]: {"json": FACT}})
    entry_point = f"press_parts:with_{kind}"
    run = stage.run(request_for(start, location, edits=edits, entry_point=entry_point))
    succeeded(run)
    same("tasks called", tasks_called(stage.model), ["Write", "Title"])
    holds("the model is given the edit", "my own fact" in stage.model.prompts()[0])
    output = grown(location, before, start, "try-it")[0].tasks[1]["output"]
    same("raw", json.loads(output["raw"]), FACT)
    same("what the run holds of it", stage.traced(), [held])


@row("outputs", "an edit that does not fit the schema is refused")
def unfit(stage: Stage) -> None:
    location = stage.recorded("pydantic")
    start, before = after(location, 2), marks(location)
    edits = Edits(outputs={start.tasks[1]["id"]: {"json": {"text": "no score"}}})
    for entry_point in ("", "press_parts:with_pydantic"):
        run = stage.run(request_for(start, location, edits=edits, entry_point=entry_point))
        same("status", run.end["status"], "failed")
        reasons = ["task 2 does not fit"] if entry_point else ["task 2 does not fit", UNABLE]
        told = any(reason in run.end["error"] for reason in reasons)
        holds(f"the reason is told: {run.end['error'][:80]}", told)
    same("model calls", len(stage.model.requests), 0)
    same("files changed", marks(location), before)


@row("outputs", "a JSON task runs again, without the project's code")
def again(stage: Stage) -> None:
    location = stage.recorded("pydantic")
    start, before = after(location, 2), marks(location)
    edits = Edits(again=frozenset({start.tasks[1]["id"]}))
    run = stage.run(request_for(start, location, edits=edits))
    if UNABLE in run.end["error"]:
        same("model calls when refused", len(stage.model.requests), 0)
        raise NotPossible(
            "this version restores no task's schema: it is refused, and asks for the entry point"
        )
    succeeded(run)
    same("tasks called", tasks_called(stage.model), ["Check", "Write", "Title"])
    output = grown(location, before, start, "try-it")[-1].tasks[1]["output"]
    holds("its answer fits the schema", set(json.loads(output["raw"])) == {"text", "score"})

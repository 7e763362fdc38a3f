"""Human input: a question comes with its context, and the answer continues the run."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from quality.compatibility.rows import row
from quality.compatibility.rows.crews import recorded_after
from quality.compatibility.rows.flows import after_method, ran, recorded_after_method
from quality.compatibility.sandbox import INPUTS, Sandbox, grown, holds, missing, same, tasks_called
from tests.engine_runs.runs import Saved, marks, new_run_request, request_for, saved_in


@row("task order", "human_input")
def human_input(sandbox: Sandbox) -> None:
    location, start, before = recorded_after(sandbox, "asking", 2)
    run = sandbox.answered(request_for(start, location, kind="resume"), "Make it shorter", "")
    same("tasks called", tasks_called(sandbox.model), ["Write", "Title"])
    first, second = run.of("question")
    same("kind", first["kind"], "human_input")
    about = first["context"]
    same(
        "what it is about",
        (about["position"], about["agent"], first["prompt"]),
        (3, "Writer", "Write about AI"),
    )
    holds(
        "the answer is handed to the model", "Make it shorter" in str(sandbox.model.requests[1]["messages"])
    )
    holds("asked again about another output", second["context"]["output"] != about["output"])
    new = grown(location, before, start, "main")
    same("output that was accepted", new[-1].tasks[2]["output"]["raw"], second["context"]["output"])
    same("finished tasks at the end", new[-1].done, 4)


@row("flow", "@persist")
def persisted(sandbox: Sandbox) -> None:
    location = sandbox.recorded("kept")
    states = location.parent / "states.db"
    start = after_method(location, "first")
    for kind, branch in (("resume", "main"), ("fork", "try-it")):
        before = marks(location)
        sandbox.model.reset()
        entry_point = "press_asking:KeptFlow"
        request = request_for(start, location, kind=kind, entry_point=entry_point)
        run = sandbox.completed(request, PRESS_STATES=str(states))
        same("methods", ran(run), ["second", "third"])
        kept = start.root["checkpoint_state"]["first"]
        same("model calls", sandbox.model.prompts()[0], f"Second after <from first> with <{kept}>")
        new = grown(location, before, start, branch)
        identifiers = {saved.root["checkpoint_state"]["id"] for saved in new}
        same(
            "a fork's state has its own name",
            start.root["checkpoint_state"]["id"] in identifiers,
            kind == "resume",
        )
        same("methods kept under it", kept_methods(states, identifiers.pop())[-2:], ["second", "third"])


@row("flow", "human feedback pending")
def pending(sandbox: Sandbox) -> None:
    location = sandbox.recorded("review")
    states = str(location.parent / "states.db")
    waits = saved_in(location)[-1]
    if waits.body.get("trigger") != "flow_paused":
        raise missing(location, "checkpoint of a flow that waits")
    output = pending_output(Path(states), waits)
    # Also from the checkpoint before: the flow's own store has the pending feedback.
    for start, kind, answer, follows in (
        (after_method(location, "collect"), "fork", "", "drop"),
        (waits, "resume", "approved", "publish"),
    ):
        before = marks(location)
        sandbox.model.reset()
        request = request_for(start, location, kind=kind, entry_point="press_asking:ReviewFlow")
        run = sandbox.answered(request, answer, PRESS_STATES=states)
        same("methods", ran(run), ["draft", follows])
        (question,) = run.of("question")
        same("kind", (question["kind"], question["prompt"]), ("human_feedback", "Is it good?"))
        same("the output to be judged", question["context"]["output"], output)
        same("choices", question["context"]["choices"], ["rejected", "approved"])
        text = f"Publish <{output}>, drafted: yes" if follows == "publish" else "Drop"
        same("model calls", sandbox.model.prompts(), [text])
        new = grown(location, before, start, "main" if kind == "resume" else "try-it")
        same(
            "completed methods",
            set(new[-1].root["checkpoint_completed_methods"]),
            {"collect", "draft", follows},
        )
    same("waits no more", pending_output(Path(states), waits), None)


@row("flow", "a question from the flow, and feedback")
def curious(sandbox: Sandbox) -> None:
    location, start, before = recorded_after_method(sandbox, "curious", "word")
    request = request_for(start, location, entry_point="press_asking:CuriousFlow")
    run = sandbox.answered(request, "Fine words", PRESS_STATES=str(location.parent / "states.db"))
    same("methods", ran(run), ["close", "show"])
    same("the output to be judged", run.of("question")[0]["context"]["output"], "<>")
    same("model calls", sandbox.model.prompts(), ["Close <>: Fine words"])
    same("checkpoints", len(grown(location, before, start, "try-it")), 3)


def kept_methods(states: Path, identifier: str) -> list[str]:
    """Return the methods after which the engine stored this state, in order."""
    with closing(sqlite3.connect(states)) as database:
        query = "SELECT method_name FROM flow_states WHERE flow_uuid = ? ORDER BY id"
        return [str(method) for (method,) in database.execute(query, (identifier,))]


def pending_output(states: Path, saved: Saved) -> object:
    """Return the output of the method that waits for feedback, or None."""
    with closing(sqlite3.connect(states)) as database:
        query = "SELECT context_json FROM pending_feedback WHERE flow_uuid = ?"
        found = database.execute(query, (saved.root["checkpoint_state"]["id"],)).fetchone()
    return json.loads(found[0])["method_output"] if found else None


@row("new run", "input() in the project's code asks a person")
def program_input(sandbox: Sandbox) -> None:
    location = sandbox.folder / "store"
    made = new_run_request(location, "crew", "press_input:crew_of_a_word", INPUTS)
    run = sandbox.answered(made, "bees")
    (question,) = run.of("question")
    same("question", (question["kind"], question["prompt"]), ("program_input", "Which word?"))
    holds("the answer is used", "with <bees>" in sandbox.model.prompts()[0])
    sandbox.model.reset()
    run = sandbox.answered(new_run_request(location, "flow", "press_input:WordFlow", {}), "one", "two")
    same("prompts", [question["prompt"] for question in run.of("question")], ["First word?", "Input"])
    same("model calls", sandbox.model.prompts(), ["Second after <ONE> with <two>, piped <>"])


@row("flow", "input() in a remaining method asks a person")
def program_input_later(sandbox: Sandbox) -> None:
    location, start, before = recorded_after_method(sandbox, "words", "first")
    request = request_for(start, location, entry_point="press_input:WordFlow")
    sandbox.answered(request, "two")
    same("model calls", sandbox.model.prompts(), ["Second after <> with <two>, piped <>"])
    holds("checkpoints", grown(location, before, start, "try-it"))

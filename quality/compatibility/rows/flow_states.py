"""The states that flows with ``@persist`` store: forks of them, and answers to what a flow waits for."""

import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

from quality.compatibility.rows import row
from quality.compatibility.rows.questions import kept_methods, pending_output
from quality.compatibility.sandbox import NotPossible, Sandbox, same, succeeded
from tests.engine_runs.runs import PRESS, Ended, marks, saved_in


def state_in(states: Path, method: str) -> tuple[int, str]:
    """Return the rowid and the flow of the newest state after this method."""
    with closing(sqlite3.connect(states)) as database:
        query = "SELECT id, flow_uuid FROM flow_states WHERE method_name = ? ORDER BY id DESC"
        found: tuple[int, str] = database.execute(query, (method,)).fetchone()
    return found


def rows_in(states: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(states)) as database:
        return list(database.execute("SELECT * FROM flow_states ORDER BY id"))


def request_of(states: Path, rowid: int, kind: str, entry_point: str, **values: Any) -> dict[str, Any]:
    """Return the request that continues a state, as the form makes it."""
    identifier = f"20261120T100000_{rowid:08x}"
    return {
        "job": str(uuid.uuid4()),
        "kind": kind,
        "checkpoint": {"id": identifier, "source": f"{states}#{identifier}"},
        "location": {"path": str(states), "store_kind": "states"},
        "entity": "flow_state",
        "name": "",
        "branch": "try-it" if kind == "fork" else "main",
        "inputs": {},
        "outputs": {},
        "state": None,
        "steps": [],
        "folder": str(PRESS),
        "entry_point": entry_point,
        **values,
    }


def forked(sandbox: Sandbox, states: Path) -> Ended:
    """Fork the first state with an edit. Raise NotPossible."""
    rowid, _flow = state_in(states, "first")
    request = request_of(states, rowid, "fork", "press_asking:KeptFlow", state={"first": "edited"})
    run = sandbox.run(request, PRESS_STATES=str(states))
    if "Install 1.14.7" in str(run.end["error"]):
        raise NotPossible("CrewAI has no restore_from_state_id before 1.14.7")
    return succeeded(run)


@row("flow", "a state of @persist: its fork starts the flow over")
def forked_state(sandbox: Sandbox) -> None:
    states = sandbox.recorded("kept").parent / "states.db"
    before, (_rowid, flow) = marks(states), state_in(states, "first")
    run = forked(sandbox, states)
    same("methods", [one["method"] for one in run.of("method_completed")], ["first", "second", "third"])
    same("the store", marks(states), before)
    scratch = sandbox.folder / "job-1/threads.sqlite"
    _rowid, copy = state_in(scratch, "third")
    same("another id of the flow", copy != flow, True)
    same("its states", kept_methods(scratch, copy), ["first", "second", "third"])


@row("flow", "a state of @persist: its fork becomes a new flow")
def published_state(sandbox: Sandbox) -> None:
    states = sandbox.recorded("kept").parent / "states.db"
    forked(sandbox, states)
    scratch = sandbox.folder / "job-1/threads.sqlite"
    rowid, _flow = state_in(scratch, "third")
    request = request_of(states, rowid, "publish", "")
    request["checkpoint"]["source"] = f"{scratch}#{rowid}"
    request["options"] = {"into": "new-thread", "new_thread": "published"}
    before = rows_in(states)
    for _again in range(2):
        sandbox.completed(request)
        same("what was there", rows_in(states)[: len(before)], before)
        same("its states", kept_methods(states, "published"), ["first", "second", "third"])


@row("flow", "a state of @persist: pending feedback is answered")
def answered_state(sandbox: Sandbox) -> None:
    location = sandbox.recorded("review")
    states = location.parent / "states.db"
    rowid, _flow = state_in(states, "draft")
    before, output = marks(states), pending_output(states, saved_in(location)[-1])
    forked = request_of(states, rowid, "fork", "press_asking:ReviewFlow", answers={"": "rejected"})
    sandbox.completed(forked, PRESS_STATES=str(states))
    same("model calls of the fork", sandbox.model.prompts(), ["Drop"])
    same("the store after the fork", marks(states), before)
    sandbox.model.reset()
    request = request_of(states, rowid, "resume", "press_asking:ReviewFlow")
    run = sandbox.answered(request, "approved", PRESS_STATES=str(states))
    (question,) = run.of("question")
    same("the output to be judged", question["context"]["output"], output)
    same("model calls", sandbox.model.prompts(), [f"Publish <{output}>, drafted: yes"])
    same("waits no more", pending_output(states, saved_in(location)[-1]), None)
    sandbox.model.reset()
    sandbox.refused(request, "no longer waits", PRESS_STATES=str(states))

"""Agents without a crew."""

from pathlib import Path

from quality.compatibility.rows import row
from quality.compatibility.sandbox import Sandbox, grown, holds, missing, same
from tests.engine_runs.runs import Saved, marks, request_for, saved_in
from viewer.engines.plan import Edits

ENTRY_POINT = "press_agent:interviewer"


def at(sandbox: Sandbox, trigger: str) -> tuple[Path, Saved, dict[str, str]]:
    """Return a recorded run, its first checkpoint of this trigger, and a hash of each of its files."""
    location = sandbox.recorded("agent")
    found = [saved for saved in saved_in(location) if saved.body.get("trigger") == trigger]
    if not found:
        raise missing(location, "checkpoint of a lone agent")
    return location, found[0], marks(location)


@row("agent", "resume with its own messages")
def resumed(sandbox: Sandbox) -> None:
    location, start, before = at(sandbox, "lite_agent_execution_started")
    sandbox.completed(request_for(start, location, kind="resume"))
    same("model calls", len(sandbox.model.requests), 1)
    holds("it is asked what it was asked", "Ask about AI" in sandbox.model.prompts()[0])
    holds("it is not told to resume", "Resume execution" not in sandbox.model.prompts()[0])
    holds("a checkpoint is written", grown(location, before, start, "main"))


@row("agent", "fork with an edited input")
def forked(sandbox: Sandbox) -> None:
    location, start, before = at(sandbox, "lite_agent_execution_completed")
    edits = Edits(inputs={"messages": "Ask about tea"})
    sandbox.completed(request_for(start, location, edits=edits, entry_point=ENTRY_POINT))
    same("model calls", len(sandbox.model.requests), 1)
    holds("it is asked the new input", "Ask about tea" in sandbox.model.prompts()[0])
    holds("it is not asked the old one", "Ask about AI" not in sandbox.model.prompts()[0])
    new = grown(location, before, start, "try-it")
    same("last trigger", new[-1].body.get("trigger"), "lite_agent_execution_completed")
    events = [node["event"] for node in new[-1].body["event_record"]["nodes"].values()]
    asked = [event for event in events if event["type"] == "lite_agent_execution_started"]
    same("how often the new input is on record", [e["messages"] for e in asked].count("Ask about tea"), 1)


@row("agent", "a finished agent does not run again")
def finished(sandbox: Sandbox) -> None:
    location, start, before = at(sandbox, "lite_agent_execution_completed")
    run = sandbox.completed(request_for(start, location, kind="resume"))
    same("model calls", len(sandbox.model.requests), 0)
    holds("its result is reported", run.end["result"])
    same("files changed", marks(location), before)

"""A recorded model call that is made again, without a run."""

from typing import Any

from quality.compatibility.rows import row
from quality.compatibility.sandbox import INPUTS, Sandbox, holds, same
from tests.engine_runs.replays import MESSAGES, TOOL, as_replay
from tests.engine_runs.runs import new_run_request

RECORDED, OTHER = "openai/gpt-4o-mini", "openai/gpt-4o"


def replay(sandbox: Sandbox, *models: str, **call: Any) -> dict[str, Any]:
    """Return a replay in the project of a crew, whose agents have the first model."""
    request = new_run_request(sandbox.folder / "store", "crew", "press_crew:make_crew", INPUTS)
    return as_replay({**request, "options": {}}, *models, **call)


@row("replay", "a recorded call, twice, by its model and another one")
def replayed(sandbox: Sandbox) -> None:
    run = sandbox.completed(replay(sandbox, RECORDED, OTHER, times=2, parameters={"temperature": 0.5}))
    sent = sandbox.model.requests
    same("models called", [one["model"] for one in sent], ["gpt-4o-mini", "gpt-4o"] * 2)
    same("temperatures", {one["temperature"] for one in sent}, {0.5})
    roles = [message["role"] for message in sent[0]["messages"]]
    same("messages sent", roles, [message["role"] for message in MESSAGES])
    answers = run.of("call_replayed")
    holds("each call has an answer", [bool(one["text"]) for one in answers] == [True] * 4)
    holds("nothing is written", not (sandbox.folder / "store").exists())


@row("replay", "a requested tool call, not executed")
def requested(sandbox: Sandbox) -> None:
    sandbox.model.calls_tools = 1
    run = sandbox.completed(replay(sandbox, RECORDED, messages=MESSAGES[:2], tools=[TOOL]))
    (answer,) = run.of("call_replayed")
    same("tools requested", [one["name"] for one in answer["tools"]], ["search_archive"])
    same("model calls", len(sandbox.model.requests), 1)
    same("called", sandbox.traced(), [])

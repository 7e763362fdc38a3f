"""Does what a job's request says, once the installed engine and the location are known to be right."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from forkline_langgraph import checkpoints, engine, opening, preflight

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_request import Request

PREFLIGHT_KINDS = ("preflight", "effects", "next")


def run(request: Request, scratch: Path, reporter: Reporter) -> str:
    """Run a request with LangGraph. Return the result as text. Raises Refused before anything has run."""
    opening.take(reporter)
    engine.load_strictly()
    if request["kind"] in PREFLIGHT_KINDS:
        return preflight.check(request, scratch, reporter)
    engine.report_start(reporter)
    opening.refuse_other_location(request)
    # They import the engine, which may have been missing or too old.
    from forkline_langgraph import publishing, runs

    if request["kind"] == "publish":
        options = request["options"]
        store = checkpoints.path_of(request)
        return str(publishing.publish(request, store, options["into"], options["new_thread"], reporter))
    return runs.run(request, scratch, reporter)


def flush() -> None:
    """Do nothing: the engine stores each checkpoint before it streams it, and waits for the last one."""

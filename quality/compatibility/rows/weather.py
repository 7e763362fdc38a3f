"""Bad weather: however a run ends, it is said why, and what was written until then is there."""

import signal

from quality.compatibility.rows import row
from quality.compatibility.rows.crews import after
from quality.compatibility.rows.flows import after_method
from quality.compatibility.stage import Stage, grown, holds, same, succeeded
from tests.runners.children import Ended, Saved, marks, request_for, started
from viewer.jobs.spool import read_events


def broken(stage: Stage, entry_point: str) -> tuple[Ended, list[Saved]]:
    """A resume that cannot end well, and what it has written."""
    location = stage.recorded("simple")
    start, before = after(location, 2), marks(location)
    run = stage.run(request_for(start, location, kind="resume", entry_point=f"press_parts:{entry_point}"))
    same("status", run.end["status"], "failed")
    new = grown(location, before, start, "main")
    same("told checkpoints", [line["id"] for line in run.of("checkpoint")], [one.id for one in new])
    holds("the third task's start is kept", new)
    return run, new


def says(run: Ended, *words: str) -> None:
    error = run.end["error"]
    holds(f"the cause is told: {error[:100]}", any(word in error for word in words))


@row("weather", "PanicException in a write")
def panic(stage: Stage) -> None:
    location = stage.recorded("flow")
    start, before = after_method(location, "outline"), marks(location)
    entry_point = "press_restless:RestlessFlow"
    request = request_for(start, location, entity="flow", kind="resume", entry_point=entry_point)
    run = stage.run(request, RESTLESS="3")
    succeeded(run)
    holds("it really panicked", "panicked at" in run.log)
    same("model calls", stage.model.prompts(), ["Stir", "Settle"])
    same("checkpoints written", len(grown(location, before, start, "main")), 2)


@row("weather", "a crew that exits")
def leaving(stage: Stage) -> None:
    run, _ = broken(stage, "with_exit")
    says(run, "sys.exit(4)")


@row("weather", "a tool that kills the process")
def killed(stage: Stage) -> None:
    location = stage.recorded("simple")
    start, before = after(location, 2), marks(location)
    stage.model.calls_tools = True
    entry_point = "press_parts:with_killing_tool"
    request = request_for(start, location, kind="resume", entry_point=entry_point)
    job = stage.folder / "job-killed"
    with started(stage.python, stage.model, job, request) as child:
        status = child.wait(240)
    lines, _ = read_events(job, 0)
    same("signal", status, -signal.SIGKILL)
    same("last line", (lines[-1]["kind"], lines[-1]["data"].get("tool")), ("tool_started", "kill_archive"))
    holds("the third task's start is kept", grown(location, before, start, "main"))


def calls_made(stage: Stage, run: Ended, most: int) -> str:
    """How often the engine and its client asked before they gave up, which may be paid each time."""
    made, told = len(stage.model.requests), len(run.of("model_started"))
    holds(f"they give up, after {made} calls", 1 <= told <= made <= most)
    times = "once" if made == 1 else f"{made} times"
    return f"the engine and its client asked the model {times} before they gave up"


@row("weather", "the model does not answer in time")
def slow(stage: Stage) -> str:
    stage.model.gate.clear()
    run, _ = broken(stage, "impatient")
    says(run, "timed out", "Timeout", "timeout")
    return calls_made(stage, run, most=3)


@row("weather", "the model answers 429")
def limited(stage: Stage) -> str:
    stage.model.refusals["Write about"] = 429
    run, _ = broken(stage, "plain")
    says(run, "429")
    return calls_made(stage, run, most=27)


@row("weather", "the model answers 500")
def failing(stage: Stage) -> str:
    stage.model.refusals["Write about"] = 500
    run, _ = broken(stage, "plain")
    says(run, "500")
    return calls_made(stage, run, most=9)

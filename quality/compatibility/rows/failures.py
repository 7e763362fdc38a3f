"""Failures: however a run ends, the reason is reported and the checkpoints until then remain."""

import signal

from quality.compatibility.rows import row
from quality.compatibility.rows.crews import recorded_after
from quality.compatibility.rows.flows import recorded_after_method
from quality.compatibility.sandbox import Sandbox, grown, holds, same
from tests.engine_runs.runs import Ended, Saved, request_for, started
from viewer.host.jobs.spool import read_events


def broken(sandbox: Sandbox, entry_point: str) -> tuple[Ended, list[Saved]]:
    """Resume a run that will fail. Return the checkpoints that it wrote."""
    location, start, before = recorded_after(sandbox, "simple", 2)
    run = sandbox.run(request_for(start, location, kind="resume", entry_point=f"press_parts:{entry_point}"))
    same("status", run.end["status"], "failed")
    new = grown(location, before, start, "main")
    same("reported checkpoints", [line["id"] for line in run.of("checkpoint")], [one.id for one in new])
    holds("the third task's start is kept", new)
    return run, new


def says(run: Ended, *text: str) -> None:
    error = run.end["error"]
    holds(f"the cause is reported: {error[:100]}", any(word in error for word in text))


@row("failures", "PanicException in a write")
def panic(sandbox: Sandbox) -> None:
    location, start, before = recorded_after_method(sandbox, "flow", "outline")
    entry_point = "press_restless:RestlessFlow"
    request = request_for(start, location, kind="resume", entry_point=entry_point)
    run = sandbox.completed(request, RESTLESS="3")
    holds("it really panicked", "panicked at" in run.log)
    same("model calls", sandbox.model.prompts(), ["Stir", "Settle"])
    new = grown(location, before, start, "main")
    same("checkpoints written", len(new), 2)
    finished = set(new[-1].root["checkpoint_completed_methods"])
    same("completed methods", finished, {"outline", "revise", "publish"})


@row("failures", "a crew that exits")
def leaving(sandbox: Sandbox) -> None:
    run, _ = broken(sandbox, "with_exit")
    says(run, "sys.exit(4)")


@row("failures", "a tool that kills the process")
def killed(sandbox: Sandbox) -> None:
    location, start, before = recorded_after(sandbox, "simple", 2)
    sandbox.model.calls_tools = 1
    entry_point = "press_parts:with_killing_tool"
    request = request_for(start, location, kind="resume", entry_point=entry_point)
    job = sandbox.folder / "job-killed"
    with started(sandbox.python, sandbox.model, job, request) as child:
        status = child.wait(240)
    lines, _ = read_events(job, 0)
    same("signal", status, -signal.SIGKILL)
    same("last line", (lines[-1]["kind"], lines[-1]["data"].get("tool")), ("tool_started", "kill_archive"))
    holds("the third task's start is kept", grown(location, before, start, "main"))


def calls_made(sandbox: Sandbox, run: Ended, most: int) -> str:
    """Return the number of requests before the engine and its client gave up. Each may be paid."""
    made, reported = len(sandbox.model.requests), len(run.of("model_started"))
    holds(f"they give up, after {made} calls", 1 <= reported <= made <= most)
    times = "once" if made == 1 else f"{made} times"
    return f"the engine and its client asked the model {times} before they gave up"


@row("failures", "the model times out")
def slow(sandbox: Sandbox) -> str:
    sandbox.model.gate.clear()
    run, _ = broken(sandbox, "impatient")
    says(run, "timed out", "Timeout", "timeout")
    return calls_made(sandbox, run, most=3)


@row("failures", "the model responds with 429")
def limited(sandbox: Sandbox) -> str:
    sandbox.model.refusals["Write about"] = 429
    run, _ = broken(sandbox, "plain")
    says(run, "429")
    return calls_made(sandbox, run, most=27)


@row("failures", "the model responds with 500")
def failing(sandbox: Sandbox) -> str:
    sandbox.model.refusals["Write about"] = 500
    run, _ = broken(sandbox, "plain")
    says(run, "500")
    return calls_made(sandbox, run, most=9)

"""Flows: finished methods do not run again, and their results reach the listeners."""

import shutil
from pathlib import Path
from typing import Any

from quality.compatibility.rows import row
from quality.compatibility.sandbox import Sandbox, grown, holds, missing, same
from tests.engine_runs.runs import Ended, Saved, marks, new_run_request, request_for, saved_in
from viewer.engines.plan import Edits


def after_method(location: Path, *methods: str) -> Saved:
    """Return the first checkpoint with these methods finished. Raise NotPossible or Failed."""
    for saved in saved_in(location):
        if set(methods) <= set(saved.root["checkpoint_completed_methods"] or []):
            return saved
    raise missing(location, "checkpoint of such a flow")


def recorded_after_method(sandbox: Sandbox, kind: str, method: str) -> tuple[Path, Saved, dict[str, str]]:
    """Return a recorded run, its checkpoint after this method, and a hash of each of its files."""
    location = sandbox.recorded(kind)
    return location, after_method(location, method), marks(location)


def ran(run: Ended) -> list[str]:
    return sorted(line["method"] for line in run.of("method_started"))


def resumed(sandbox: Sandbox, kind: str, flow: str, *methods: str) -> tuple[Ended, Saved]:
    """Resume a recorded run after these methods, and check every new checkpoint."""
    return resumed_at(sandbox, sandbox.recorded(kind), flow, *methods)


def resumed_at(sandbox: Sandbox, location: Path, flow: str, *methods: str) -> tuple[Ended, Saved]:
    """Resume a copy of a recorded run after these methods, and check every new checkpoint."""
    start, before = after_method(location, *methods), marks(location)
    request = request_for(start, location, kind="resume", entry_point=flow)
    run = sandbox.completed(request)
    new = grown(location, before, start, "main")
    same("checkpoints written", len(new), len(ran(run)))
    finished = set(start.root["checkpoint_completed_methods"])
    same("methods that ran again", finished & set(ran(run)), set())
    same("completed methods", set(new[-1].root["checkpoint_completed_methods"]), finished | set(ran(run)))
    return run, start


def forked(sandbox: Sandbox, kind: str, flow: str, method: str, state: dict[str, Any]) -> list[Saved]:
    location, start, before = recorded_after_method(sandbox, kind, method)
    edits = Edits(state=state)
    sandbox.completed(request_for(start, location, edits=edits, entry_point=flow))
    new = grown(location, before, start, "try-it")
    saved = {name: new[0].root["checkpoint_state"][name] for name in state}
    same("edited state in the first checkpoint", saved, state)
    return new


@row("flow", "resume, pydantic state")
def pydantic_state(sandbox: Sandbox) -> None:
    run, start = resumed(sandbox, "flow", "press_flow:PressFlow", "length")
    holds("the rest runs", {"write_long", "publish"} <= set(ran(run)))
    outline = start.root["checkpoint_state"]["outline"]
    holds("the saved state reaches it", f"Write AI from {outline}" in sandbox.model.prompts())


@row("flow", "fork with an edited pydantic state")
def edited_pydantic_state(sandbox: Sandbox) -> None:
    state = {"outline": "my outline", "year": 1999}
    new = forked(sandbox, "flow", "press_flow:PressFlow", "length", state)
    holds("the edit reaches what runs", "Write AI from my outline" in sandbox.model.prompts())
    holds("a number stays one", any(prompt.endswith("in 1999") for prompt in sandbox.model.prompts()))
    same("state at the end", new[-1].root["checkpoint_state"]["year"], 1999)


@row("flow", "an invalid state is refused")
def unfit_state(sandbox: Sandbox) -> None:
    location, start, before = recorded_after_method(sandbox, "flow", "length")
    edits = Edits(state={"year": "no number"})
    entry_point = "press_flow:PressFlow"
    request = request_for(start, location, edits=edits, entry_point=entry_point)
    sandbox.refused(request, "state is invalid")
    same("files changed", marks(location), before)


@row("flow", "resume, dict state, router")
def router(sandbox: Sandbox) -> None:
    run, _ = resumed(sandbox, "turning", "press_flows:TurningFlow", "look")
    same("methods", ran(run), ["go_left", "turn"])
    same("model calls", sandbox.model.prompts(), ["Go left"])


@row("flow", "fork with an edited dict state, router")
def edited_route(sandbox: Sandbox) -> None:
    forked(sandbox, "turning", "press_flows:TurningFlow", "look", {"year": 1999})
    same("model calls", sandbox.model.prompts(), ["Go right"])


@row("flow", "a finished router's route is followed")
def finished_route(sandbox: Sandbox) -> None:
    run, _ = resumed(sandbox, "turning", "press_flows:TurningFlow", "turn")
    same("methods", ran(run), ["go_left"])


@row("flow", "and_, or_: finished methods pass on their results")
def joined(sandbox: Sandbox) -> None:
    run, _ = resumed(sandbox, "joined", "press_flows:JoinedFlow", "north")
    same("methods", ran(run), ["both", "either", "south"])
    prompts = sandbox.model.prompts()
    same("south is handed north's result", prompts[0], "South after <from north>")
    same("both is given the state", prompts[1], "Both of AI with snow")
    holds("either is handed both's result", prompts[2].startswith("Either after <words"))


@row("flow", "and_, or_: half of a join has finished")
def half_joined(sandbox: Sandbox) -> None:
    run, _ = resumed(sandbox, "joined", "press_flows:JoinedFlow", "south")
    same("methods", ran(run), ["both", "either"])


@row("flow", "an inner crew")
def crew_inside(sandbox: Sandbox) -> None:
    run, start = resumed(sandbox, "crew flow", "press_flows:CrewFlow", "before")
    same("methods", ran(run), ["after", "work"])
    same("model calls", len(sandbox.model.requests), 3)
    last = start.root["checkpoint_method_outputs"][-1]
    handed = last["output"] if isinstance(last, dict) else last
    holds("the crew is handed the finished method's result", f"First {handed}" in sandbox.model.prompts()[0])


@row("flow", "an inner crew has finished")
def crew_finished(sandbox: Sandbox) -> None:
    run, _ = resumed(sandbox, "crew flow", "press_flows:CrewFlow", "work")
    same("methods", ran(run), ["after"])
    same("model calls", len(sandbox.model.requests), 1)


@row("flow", "a loop through a router: resume from each checkpoint")
def loop(sandbox: Sandbox) -> None:
    recorded = sandbox.recorded("loop")
    originals = saved_in(recorded)
    same("checkpoints of three rounds", len(originals), 7)
    last = originals[-1].root
    for number, original in enumerate(originals):
        location = Path(shutil.copytree(recorded, recorded.with_name(f"loop-{number}")))
        start = next(saved for saved in saved_in(location) if saved.id == original.id)
        before = marks(location)
        sandbox.model.reset()
        run = sandbox.completed(
            request_for(start, location, kind="resume", entry_point="press_loop:LoopFlow")
        )
        output = last["checkpoint_method_outputs"][-1]
        same("result", run.end["result"], output["output"] if isinstance(output, dict) else output)
        same(f"model calls from checkpoint {number + 1}", len(sandbox.model.requests), 6 - number)
        new = grown(location, before, start, "main") if number < 6 else []
        same(f"checkpoints from checkpoint {number + 1}", len(marks(location)), len(before) + 6 - number)
        for field in ("checkpoint_state", "checkpoint_method_outputs", "checkpoint_method_counts"):
            same(f"{field} at the end", (new[-1] if new else start).root[field], last[field])


@row("flow", "a loop through a router: fork with an edited state")
def loop_on(sandbox: Sandbox) -> None:
    location = sandbox.recorded("loop")
    before = marks(location)
    start = next(
        saved
        for saved in saved_in(location)
        if saved.root["checkpoint_method_counts"] == {"write": 2, "judge": 2}
    )
    edits = Edits(state={"enough": 4, "topic": "tea"})
    run = sandbox.completed(request_for(start, location, edits=edits, entry_point="press_loop:LoopFlow"))
    methods = [line["method"] for line in run.of("method_started")]
    same("methods, in order", methods, ["write", "judge", "write", "judge", "publish"])
    same("model calls", len(sandbox.model.requests), 5)
    holds("the edit reaches what runs", "Write tea, round 3" in sandbox.model.prompts()[0])
    new = grown(location, before, start, "try-it")
    counts = {"write": 4, "judge": 4, "publish": 1}
    same("counts at the end", new[-1].root["checkpoint_method_counts"], counts)


@row("flow", "refused without its class")
def no_class(sandbox: Sandbox) -> None:
    location, start, before = recorded_after_method(sandbox, "flow", "outline")
    sandbox.refused(request_for(start, location, kind="resume"), "needs its code")
    same("files changed", marks(location), before)


@row("flow", "a model whose provider is not installed is found before the run")
def missing_provider(sandbox: Sandbox) -> None:
    location = sandbox.recorded("late")
    start = after_method(location, "first")
    entry_point = "press_providers:LateFlow"
    asked = request_for(start, location, entry_point=entry_point)
    sandbox.refused({**asked, "options": {"accepted": []}}, "anthropic/claude-sonnet-4-5")
    check = sandbox.run({**asked, "kind": "preflight"})
    lost = [part for part in check.of("preflight")[0]["report"]["components"] if part["fate"] == "lost"]
    same("lost", [part["what"] for part in lost], ["providers"])
    made = new_run_request(sandbox.folder / "store", "flow", entry_point, {})
    run = sandbox.run({**made, "options": {"accepted": []}})
    same("status of a new run", run.end["status"], "failed")
    same("model calls", sandbox.model.prompts(), [])

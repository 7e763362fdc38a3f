"""Resumes or forks a flow with the project's methods."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from crewai.flow.flow import Flow
from pydantic import BaseModel, ValidationError

from forkline_crewai.patches import replayed_methods
from forkline_crewai.restore import components, flow_results, restoring
from forkline_crewai.run import entry_points, flow_replay, inner_crews, model_providers
from forkline_runner.messages import Refused

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.host.jobs.request import Request


def prepare(
    state: Any, saved: Mapping[str, Any], body: Mapping[str, Any], request: Request, reporter: Reporter
) -> Any:
    """Return the flow, on its branch and ready to be kicked off. Raises Refused.

    ``saved`` is its edited data. A checkpoint contains no methods, so they come from the project: the
    engine's base class would run nothing and return the old output.
    """
    flow = made_by(request["entry_point"])
    found = [*components.of_project_flow(flow, saved), *model_providers.missing(flow)]
    components.report_and_refuse(found, request, reporter)
    restore_state(flow, saved)
    flow_results.restore_feedback(flow, saved)
    flow.checkpoint = restoring.settings_for(request, saved.get("checkpoint"), flow.checkpoint)
    inner_crews.continue_crews(body, request, reporter)
    restoring.attach(state, flow)
    if request["kind"] == "fork":
        _give_state_new_id(flow)
    restoring.write_first(state, request, edited=request["state"] is not None)
    restoring.continue_numbering(restoring.events_in(body), "flow_started")
    return flow


def replay_finished(flow: Any, saved: Mapping[str, Any], body: Mapping[str, Any], reporter: Reporter) -> None:
    """Make the finished methods return their recorded results instead of running again."""
    results = flow_results.results_of(saved, restoring.events_in(body))
    replayed_methods.apply(flow_replay.Replay(flow, flow_results.typed(flow, results, reporter)))


def made_by(entry_point: str) -> Any:
    """Return the project's flow, not started, from its class, function or file. Raises Refused."""
    return entry_points.made_by(entry_point, Flow, "flow")


def run(flow: Any, inputs: Mapping[str, Any] | None = None) -> str:
    """Kick off the flow, with inputs if it is a new run. Return its last method's result as text."""
    result = flow.kickoff(inputs=dict(inputs)) if inputs else flow.kickoff()
    if isinstance(result, BaseModel):
        return str(result.model_dump_json())
    return result if isinstance(result, str) else json.dumps(result, default=str, ensure_ascii=False)


def steps_of(flow: Any, request: Request) -> list[dict[str, Any]]:
    """Return the methods with their planned actions; without one, ``kept`` if finished, else ``runs``."""
    finished = {str(name) for name in flow._completed_methods}
    planned = {step["task"]: step["action"] for step in request["steps"]}
    names = [str(name) for name in flow._methods]
    if set(planned.values()) - {"kept"}:
        # The plan lists the methods that follow: it does not contain routes that were not taken.
        names = [name for name in names if name in planned]
    return [
        {
            "unit": name,
            "position": position,
            "title": name,
            "action": planned.get(name) or _action(name in finished),
        }
        for position, name in enumerate(names, 1)
    ]


def restore_state(flow: Any, saved: Mapping[str, Any]) -> None:
    """Restore the flow's state and finished methods. Raises Refused if the state does not fit."""
    for name in ("completed_methods", "method_outputs", "method_counts", "state"):
        value = saved.get(f"checkpoint_{name}")
        setattr(flow, f"checkpoint_{name}", set(value) if name == "completed_methods" and value else value)
    try:
        flow._restore_from_checkpoint()
    except ValidationError as error:
        raise Refused("crewai.flow_state_does_not_fit", error=error) from error


def _give_state_new_id(flow: Any) -> None:
    """Give the fork's state a new id, as the engine's own fork does."""
    identifier = str(uuid.uuid4())
    if isinstance(flow._state, dict):
        flow._state["id"] = identifier
    else:
        object.__setattr__(flow._state, "id", identifier)


def _action(finished: bool) -> str:
    return "kept" if finished else "runs"

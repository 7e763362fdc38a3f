"""Runs a flow on from a checkpoint, in the user's own class."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from crewai.flow.flow import Flow
from pydantic import BaseModel, ValidationError

from forkline_crewai import project, restoring
from forkline_crewai.refusal import Refused

if TYPE_CHECKING:
    from viewer.jobs.spool import Request


def prepare(state: Any, saved: Mapping[str, Any], body: Mapping[str, Any], request: Request) -> Any:
    """The flow, on its branch and ready to be kicked off. ``saved`` is its edited data. Raises Refused.

    A flow's methods are its class's, so it needs the user's own: the engine's base class would run
    nothing and hand back the old output.
    """
    flow_class = project.load(request["entry_point"])
    if not isinstance(flow_class, type) or not issubclass(flow_class, Flow):
        raise Refused(f"The entry point {request['entry_point']} is no flow's class.")
    try:
        flow: Any = flow_class()
    except Exception as error:
        raise Refused(f"{request['entry_point']} cannot be made: {type(error).__name__}: {error}") from error
    _take_over(flow, saved)
    flow.checkpoint = restoring.settings_for(request, saved.get("checkpoint"), flow.checkpoint)
    events = restoring.events_in(body)
    hand_on_results(flow, results_of(saved, events))
    restoring.attach(state, flow)
    if request["kind"] == "fork":
        _rename_state(flow)
    restoring.leave(state, request, edited=request["state"] is not None)
    restoring.continue_numbering(events, "flow_started")
    return flow


def run(flow: Any) -> str:
    """Kick it off, and what its last method returned."""
    result = flow.kickoff()
    if isinstance(result, BaseModel):
        return str(result.model_dump_json())
    return result if isinstance(result, str) else json.dumps(result, default=str, ensure_ascii=False)


def steps_of(flow: Any) -> list[dict[str, Any]]:
    """The steps as the class tells them: which methods are finished, and which may run."""
    finished = {str(name) for name in flow._completed_methods}
    return [
        {
            "unit": str(name),
            "position": position,
            "title": str(name),
            "action": _action(str(name) in finished),
        }
        for position, name in enumerate(flow._methods, 1)
    ]


def results_of(saved: Mapping[str, Any], events: list[dict[str, Any]]) -> dict[str, Any]:
    """What each finished method returned. Older engines keep it without the methods' names."""
    finished = [event for event in events if event.get("type") == "method_execution_finished"]
    results = {str(event.get("method_name")): event.get("result") for event in finished}
    kept = [entry for entry in saved.get("checkpoint_method_outputs") or [] if isinstance(entry, dict)]
    named = {str(entry["method"]): entry["output"] for entry in kept if entry.keys() >= {"method", "output"}}
    return {**results, **named}


def hand_on_results(flow: Any, results: Mapping[str, Any]) -> None:
    """Have finished methods hand their own results on to those that still run.

    The engine hands on None, or the last result of all, and does not follow a finished router's route.
    """
    execute_listeners, execute_listener = Flow._execute_listeners, Flow._execute_single_listener
    finished = {str(name) for name in flow._completed_methods}

    def is_replayed(self: Any, method: Any) -> bool:
        return (
            self is flow
            and self._is_execution_resuming
            and str(method) in finished
            and str(method) in results
        )

    async def listeners(self: Any, method: Any, result: Any, *rest: Any, **named: Any) -> Any:
        if is_replayed(self, method):
            result = results[str(method)]
        return await execute_listeners(self, method, result, *rest, **named)

    async def listener(self: Any, method: Any, *rest: Any, **named: Any) -> Any:
        replayed = is_replayed(self, method)
        outcome = await execute_listener(self, method, *rest, **named)
        return (results[str(method)], outcome[1]) if replayed else outcome

    Flow._execute_listeners, Flow._execute_single_listener = listeners, listener


def _take_over(flow: Any, saved: Mapping[str, Any]) -> None:
    for name in ("completed_methods", "method_outputs", "method_counts", "state"):
        value = saved.get(f"checkpoint_{name}")
        setattr(flow, f"checkpoint_{name}", set(value) if name == "completed_methods" and value else value)
    try:
        flow._restore_from_checkpoint()
    except ValidationError as error:
        raise Refused(f"The flow's state does not fit: {error}") from error


def _rename_state(flow: Any) -> None:
    """Keep the fork's saved states apart from the original's, as the engine's own fork does."""
    name = str(uuid.uuid4())
    if isinstance(flow._state, dict):
        flow._state["id"] = name
    else:
        object.__setattr__(flow._state, "id", name)


def _action(finished: bool) -> str:
    return "kept" if finished else "runs"

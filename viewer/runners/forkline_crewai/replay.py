"""Replays a model call with CrewAI's models: those of the project's agents, or made from their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from crewai import Agent

from forkline_crewai import crews, entry_points, models, reporting
from forkline_crewai.components import can_produce
from forkline_crewai.patches import recording
from forkline_runner.replay import Answer, messages_of, parameters_of, replay, tools_of
from forkline_runner.reporting import as_text

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_request import Request


def replay_call(request: Request, reporter: Reporter) -> str:
    """Call the models, and report their answers. Return an empty result. Raises Refused before any call."""
    recording.report_events(partial(reporting.report_event, reporter, {}))
    return replay(request, reporter, partial(_client, request, _project_model(request)))


def _project_model(request: Request) -> Any:
    """Return the model of the agent that made the call, else the project's model of this name, or None."""
    wanted = request["replay"]
    found = [(str(agent.role), agent.llm) for agent in _agents(request)]
    for role, model in found:
        if wanted["agent"] and can_produce(role.strip(), wanted["agent"]):
            return model
    names = (model for _role, model in found if getattr(model, "model", "") == wanted["model"])
    return next(names, None)


def _agents(request: Request) -> list[Any]:
    """Return the agents of the entry point; none without one, and of a flow, which makes them as it runs."""
    if not request["entry_point"] or request["entity"] == "flow":
        return []
    if request["entity"] == "agent":
        return [entry_points.made_by(request["entry_point"], Agent, "agent")]
    return list(crews.new_crew(request).agents)


def _client(request: Request, former: Any, name: str) -> Callable[[], Answer]:
    model = models.with_model(former, name, parameters_of(request))
    tools = tools_of(request) or None

    def send() -> Answer:
        # Without functions, the engine returns the tool calls of an answer and executes none.
        return _answer(model.call(messages_of(request), tools=tools, available_functions=None))

    return send


def _answer(value: Any) -> Answer:
    if isinstance(value, list):
        return Answer("", [_tool(one) for one in value])
    return Answer(as_text(value))


def _tool(call: Any) -> dict[str, Any]:
    """Return a tool call as any provider writes it."""
    function = _field(call, "function") or call
    arguments = _field(function, "arguments")
    return {
        "name": str(_field(function, "name") or ""),
        "arguments": _field(function, "input", "args") if arguments is None else arguments,
        "id": str(_field(call, "id", "toolUseId") or ""),
    }


def _field(value: Any, *names: str) -> Any:
    found = (value.get(name) if isinstance(value, Mapping) else getattr(value, name, None) for name in names)
    return next((one for one in found if one is not None), None)

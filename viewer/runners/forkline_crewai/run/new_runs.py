"""New runs of the project's crew, flow or agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from crewai import Agent, Crew

from forkline_crewai import engine_patches
from forkline_crewai.patches.questions import pausing_providers
from forkline_crewai.restore import components, restoring
from forkline_crewai.run import (
    agents,
    cache_warmup,
    crews,
    declared,
    entry_points,
    flows,
    model_providers,
    models,
)
from forkline_crewai.run.interpolation import filled, placeholders
from forkline_runner.messages import Refused
from forkline_runner.reporting import shortened

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.host.jobs.request import Request


def run(request: Request, reporter: Reporter) -> str:
    """Create and run the entity, and write its checkpoints to the location. Return its result as text.

    Raises Refused before anything has run.
    """
    if request["entity"] == "crew":
        inputs = {**declared.default_inputs(request["entry_point"]), **request["inputs"]}
        request = {**request, "inputs": inputs}
    make = {"crew": _crew, "flow": _flow, "agent": _agent}[request["entity"]]
    made, steps = make(request, reporter)
    components.report_and_refuse(model_providers.missing(made), request, reporter)
    made.checkpoint = restoring.settings_for(request, made.checkpoint)
    engine_patches.apply_all(request, reporter, {step["unit"]: step["position"] for step in steps})
    reporter.write("steps", steps=steps)
    with restoring.one_scope():
        if request["entity"] == "crew":
            return crews.run(made, request["inputs"])
        if request["entity"] == "flow":
            return flows.run(made, request["inputs"])
        return str(made.kickoff(_message(request)).raw)


def _crew(request: Request, reporter: Reporter) -> tuple[Any, list[dict[str, Any]]]:
    crew = entry_points.made_by(request["entry_point"], Crew, "crew")
    for agent in crew.agents:
        agent.checkpoint = None  # the crew's settings apply to all
    crew.stream = False
    _refuse_missing_inputs(crew, request["inputs"])
    models.choose_for_new_crew(crew, request)
    cache_warmup.before_first_task(crew, request, reporter)
    steps = [
        {
            "unit": str(task.id),
            "position": position,
            "title": shortened(filled(task.name or task.description, request["inputs"]), 200),
            "agent": filled(getattr(task.agent, "role", None) or "", request["inputs"]).strip(),
            "action": "runs",
        }
        for position, task in enumerate(crew.tasks, 1)
    ]
    return crew, steps


def _flow(request: Request, reporter: Reporter) -> tuple[Any, list[dict[str, Any]]]:
    flow = flows.made_by(request["entry_point"])
    flow.stream = False
    pausing_providers.apply_to_methods(flow, reporter.questions)
    return flow, flows.steps_of(flow, request)


def _agent(request: Request, reporter: Reporter) -> tuple[Any, list[dict[str, Any]]]:
    agent = entry_points.made_by(request["entry_point"], Agent, "agent")
    _message(request)
    step = {
        "unit": str(agent.id),
        "position": 1,
        "title": shortened(str(agent.role).strip(), 200),
        "action": "runs",
    }
    return agent, [step]


def _message(request: Request) -> Any:
    """Return the agent's input. Raises Refused if there is none."""
    message = request["inputs"].get(agents.MESSAGES)
    if not message:
        raise Refused(
            "crewai.agent_input_missing",
            input=agents.MESSAGES,
        )
    return message


def _refuse_missing_inputs(crew: Any, inputs: Mapping[str, Any]) -> None:
    """Raise Refused if inputs in the crew's texts are missing: the engine names only the first.

    Without any inputs the engine leaves the texts unchanged, and the project's hooks may add inputs.
    """
    if not inputs or crew.before_kickoff_callbacks:
        return
    texts = [text for task in crew.tasks for text in (task.description, task.expected_output)]
    texts += [text for agent in crew.agents for text in (agent.role, agent.goal, agent.backstory)]
    missing = sorted(set().union(*(placeholders(text) for text in texts)) - inputs.keys())
    if missing:
        raise Refused("crewai.inputs_missing", inputs=", ".join(missing))

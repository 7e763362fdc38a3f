"""Runs or checks a crew, flow or agent with the patched engine, new or from a checkpoint."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crewai import Agent
from crewai.events.event_bus import crewai_event_bus
from crewai.events.types.agent_events import LiteAgentExecutionStartedEvent
from crewai.utilities.string_utils import sanitize_tool_name

from forkline_crewai import components, crews, effects, entry_points, flows, models, restoring
from forkline_crewai.components import filled, placeholders
from forkline_crewai.patches import questions, recording, tasks
from forkline_runner.calls import tool_calls_of
from forkline_runner.reporting import Refused, shortened

if TYPE_CHECKING:
    from forkline_runner.findings import Report
    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_protocol import Request


# An agent that runs without a crew.


# The name of the agent's input: a text, or a list of messages.
MESSAGES = "messages"


def prepare_agent(
    state: Any, saved: Mapping[str, Any], body: Mapping[str, Any], request: Request, reporter: Reporter
) -> Any:
    """Return the agent, on its branch and ready to run. ``saved`` is its data. Raises Refused."""
    if request["entry_point"]:
        agent = entry_points.made_by(request["entry_point"], Agent, "agent")
        object.__setattr__(agent, "id", uuid.UUID(str(saved["id"])))
        agent.agent_executor = None
    else:
        components.report_and_refuse(
            components.of_restored_agent(saved, effects.may_import), request, reporter
        )
        agent = state.root[0]
    models.choose_for_agent(agent, saved, request)
    agent.checkpoint = restoring.settings_for(request, saved.get("checkpoint"), agent.checkpoint)
    restoring.attach(state, agent)
    events = restoring.events_in(body)
    if hasattr(agent, "_restore_runtime"):
        agent.checkpoint_kickoff_event_id = saved.get("checkpoint_kickoff_event_id") or str(uuid.uuid4())
        agent._restore_runtime(state)
    else:
        restoring.continue_numbering(events, "lite_agent_execution_started")
    messages = None if _is_kept(request) else messages_for(events, request)
    restoring.write_first(state, request, edited=bool(request["inputs"]))
    if request["inputs"] and hasattr(agent, "_restore_runtime"):
        # Newer engines record the messages only at an agent's first start, and this is a second one.
        info = {"id": agent.id, "role": agent.role, "goal": agent.goal, "backstory": agent.backstory}
        started = LiteAgentExecutionStartedEvent(agent_info=info, tools=None, messages=messages)
        crewai_event_bus.emit(agent, started)
    return agent


def _add_agent(
    report: Report, request: Request, body: dict[str, Any], saved: dict[str, Any], scratch: Path
) -> None:
    """Add the components of an agent to a preflight report, as ``crews.add_components`` does for a crew."""
    if request["entry_point"]:
        agent = entry_points.made_by(request["entry_point"], Agent, "agent")
        report["components"] = components.of_project_agent(agent)
        if saved:
            restoring.restored(body, [], request, scratch)
        return
    report["components"] = components.of_restored_agent(saved, effects.may_import)
    report["imports"] += components.modules_in(saved)
    entity, _lost = effects.clean_agent(saved, effects.may_import, os.environ)
    restoring.restored(body, [entity], request, scratch)


def run_agent(agent: Any, body: Mapping[str, Any], request: Request) -> str:
    """Run the agent with its messages or the edited input. Return its output.

    A kept agent does not run; its recorded output is returned.
    """
    events = restoring.events_in(body)
    if _is_kept(request):
        ended = [event for event in events if event.get("type") == "lite_agent_execution_completed"]
        return str(ended[-1].get("output") or "") if ended else ""
    with restoring.one_scope():
        return str(agent.kickoff(messages_for(events, request)).raw)


def messages_for(events: list[dict[str, Any]], request: Request) -> Any:
    """Return the agent's messages: the edited input, else the recorded ones. Raises Refused."""
    if MESSAGES in request["inputs"]:
        return request["inputs"][MESSAGES]
    if request["inputs"]:
        raise Refused(
            "crewai.agent_other_input",
            input=MESSAGES,
            other=next(iter(request["inputs"])),
        )
    starts = [event for event in events if event.get("type") == "lite_agent_execution_started"]
    if starts and starts[-1].get("messages"):
        return starts[-1]["messages"]
    raise Refused("crewai.agent_input_unknown", input=MESSAGES)


def _is_kept(request: Request) -> bool:
    return any(step["action"] == "kept" for step in request["steps"])


# Any run, new or from a checkpoint.

MAX_TITLE = 200


def patch_engine(request: Request, reporter: Reporter, positions: Mapping[str, int]) -> None:
    """Apply the patches that every run needs, in the order in which they wrap each other.

    ``positions`` maps task ids to their positions, counted from 1.
    """
    recording.name_functions(reporter.warn)
    recording.retry_serialization()
    recording.pin_locations(request)
    recording.write_one_at_a_time(reporter)
    recording.report_checkpoints(reporter)
    recording.await_writes()
    tasks.pass_on_async_failures()
    questions.ask_for_output_review(reporter.questions)
    questions.ask_for_feedback(reporter.questions)
    questions.route_by_chosen_outcome()
    questions.ask_instead_of_pausing(reporter.questions)
    questions.ask_for_flow_input(reporter.questions)
    recording.prune_older_checkpoints(request, reporter)
    recording.report_events(reporter, positions)


def add_components(
    report: Report, request: Request, body: dict[str, Any], saved: dict[str, Any], scratch: Path
) -> None:
    """Add the components to a preflight report, and restore the checkpoint from a copy, as the run would.

    ``saved`` is the checkpoint's root entity; both it and ``body`` are empty for a new run. Nothing runs.
    Raises Refused.
    """
    added = {"crew": crews.add_components, "flow": flows.add_components, "agent": _add_agent}
    added[request["entity"]](report, request, body, saved, scratch)


def run_restored(
    request: Request,
    body: dict[str, Any],
    root: dict[str, Any],
    entities: list[Any],
    scratch: Path,
    reporter: Reporter,
) -> str:
    """Run the remaining steps from a checkpoint. Return the result as text.

    ``root`` is its root entity with a person's edits, and ``entities`` are what is restored. Raises Refused
    before anything has run.
    """
    saved_tasks = root.get("tasks") or [] if request["entity"] == "crew" else []
    positions = {str(task["id"]): position for position, task in enumerate(saved_tasks, 1)}
    patch_engine(request, reporter, positions)
    if calls := tool_calls_of(request, reporter, sanitize_tool_name):
        tasks.decide_about_calls(calls)
    state = restoring.restored(body, entities, request, scratch)
    if request["entity"] == "crew":
        crew = crews.prepare(state, root, body, request, reporter)
        reporter.write("steps", steps=_planned_steps(request, [root, *saved_tasks]))
        return crews.run(crew)
    if request["entity"] == "flow":
        flow = flows.prepare(state, root, body, request, reporter)
        questions.ask_instead_of_pausing_in_methods(flow, reporter.questions)
        flows.continue_pending(flow, root, body, request, reporter.questions)
        flows.replay_finished(flow, root, body, reporter)
        reporter.write("steps", steps=flows.steps_of(flow, request))
        return flows.run(flow)
    agent = prepare_agent(state, root, body, request, reporter)
    reporter.write("steps", steps=_planned_steps(request, [root]))
    return run_agent(agent, body, request)


def _planned_steps(request: Request, units: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = ("name", "description", "role")
    titles = {
        str(unit.get("id")): next((unit[name] for name in names if unit.get(name)), "") for unit in units
    }
    return [
        {
            "unit": step["task"],
            "position": position,
            "title": shortened(titles.get(step["task"], ""), MAX_TITLE),
            "action": step["action"],
        }
        for position, step in enumerate(request["steps"], 1)
    ]


def run_new(request: Request, reporter: Reporter) -> str:
    """Create and run the entity, and write its checkpoints to the location. Return its result as text.

    Raises Refused before anything has run.
    """
    if request["entity"] == "crew":
        inputs = {**entry_points.default_inputs(request["entry_point"]), **request["inputs"]}
        request = {**request, "inputs": inputs}
    make = {"crew": _new_crew, "flow": _new_flow, "agent": _new_agent}[request["entity"]]
    made, steps = make(request, reporter)
    components.report_and_refuse(models.missing_models(made), request, reporter)
    made.checkpoint = restoring.settings_for(request, made.checkpoint)
    patch_engine(request, reporter, {step["unit"]: step["position"] for step in steps})
    reporter.write("steps", steps=steps)
    with restoring.one_scope():
        if request["entity"] == "crew":
            return crews.run(made, request["inputs"])
        if request["entity"] == "flow":
            return flows.run(made, request["inputs"])
        return str(made.kickoff(_message(request)).raw)


def _new_crew(request: Request, reporter: Reporter) -> tuple[Any, list[dict[str, Any]]]:
    crew = crews.new_crew(request)
    for agent in crew.agents:
        agent.checkpoint = None  # the crew's settings apply to all
    crew.stream = False
    _refuse_missing_inputs(crew, request["inputs"])
    models.choose_for_new_crew(crew, request)
    models.before_first_task(crew, request, reporter)
    steps = [
        {
            "unit": str(task.id),
            "position": position,
            "title": shortened(filled(task.name or task.description, request["inputs"]), MAX_TITLE),
            "agent": filled(getattr(task.agent, "role", None) or "", request["inputs"]).strip(),
            "action": "runs",
        }
        for position, task in enumerate(crew.tasks, 1)
    ]
    return crew, steps


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


def _new_flow(request: Request, reporter: Reporter) -> tuple[Any, list[dict[str, Any]]]:
    flow = flows.made_by(request["entry_point"])
    flow.stream = False
    questions.ask_instead_of_pausing_in_methods(flow, reporter.questions)
    return flow, flows.steps_of(flow, request)


def _new_agent(request: Request, reporter: Reporter) -> tuple[Any, list[dict[str, Any]]]:
    agent = entry_points.made_by(request["entry_point"], Agent, "agent")
    _message(request)
    step = {
        "unit": str(agent.id),
        "position": 1,
        "title": shortened(str(agent.role).strip(), MAX_TITLE),
        "action": "runs",
    }
    return agent, [step]


def _message(request: Request) -> Any:
    """Return the agent's input. Raises Refused if there is none."""
    message = request["inputs"].get(MESSAGES)
    if not message:
        raise Refused("crewai.agent_input_missing", input=MESSAGES)
    return message

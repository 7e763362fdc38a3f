"""Resumes or forks an agent that runs without a crew."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from crewai import Agent
from crewai.events.event_bus import crewai_event_bus
from crewai.events.types.agent_events import LiteAgentExecutionStartedEvent

from forkline_crewai import components, entry_points, models, restoring, sanitizing
from forkline_runner.messages import Refused

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_request import Request

# The name of the agent's input: a text, or a list of messages.
MESSAGES = "messages"


def prepare(
    state: Any, saved: Mapping[str, Any], body: Mapping[str, Any], request: Request, reporter: Reporter
) -> Any:
    """Return the agent, on its branch and ready to run. ``saved`` is its data. Raises Refused."""
    if request["entry_point"]:
        agent = entry_points.made_by(request["entry_point"], Agent, "agent")
        object.__setattr__(agent, "id", uuid.UUID(str(saved["id"])))
        agent.agent_executor = None
    else:
        components.report_and_refuse(
            components.of_restored_agent(saved, sanitizing.may_import), request, reporter
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
        crewai_event_bus.emit(agent, _start_event(agent, messages))
    return agent


def run(agent: Any, body: Mapping[str, Any], request: Request) -> str:
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


def _start_event(agent: Any, messages: Any) -> Any:
    info = {"id": agent.id, "role": agent.role, "goal": agent.goal, "backstory": agent.backstory}
    return LiteAgentExecutionStartedEvent(agent_info=info, tools=None, messages=messages)

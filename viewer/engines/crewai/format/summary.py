"""The columns of a CrewAI checkpoint: root entity, name, run, progress, trigger, calls and sessions."""

from collections.abc import Iterable

import msgspec

from viewer.engines.crewai.contents.shapes import moment
from viewer.engines.crewai.format.root_entity import root_position
from viewer.engines.crewai.format.structs import Document, Entity, Event
from viewer.engines.titles import short_title
from viewer.stores.model_calls import ModelCall, call_of

# CrewAI runs agents in internal flows, whose events are recorded with those of the user's flow.
INTERNAL_FLOWS = frozenset({"AgentExecutor", "CrewAgentExecutor", "CrewAgentExecutorFlow", "LiteAgent"})


class _State(msgspec.Struct):
    id: str | None = None


_state = msgspec.json.Decoder(_State)
_name = msgspec.json.Decoder(str | None)


def root_of(entities: Iterable[Entity]) -> Entity | None:
    """Return the root entity; None if there is none."""
    all_of_them = list(entities)
    position = root_position([entity.facts for entity in all_of_them])
    return None if position is None else all_of_them[position]


def entity_type_of(entity: Entity | None) -> str:
    """Return ``crew``, ``flow``, ``agent`` or ``unknown``."""
    kind = entity.entity_type if entity else ""
    return kind if kind in ("crew", "flow", "agent") else "unknown"


def name_of(root: Entity | None, document: Document) -> str:
    """The crew's name, the agent's role, or the flow's name or class. Only events contain the class."""
    if root is None:
        return ""
    if root.entity_type == "agent":
        return (root.role or "").strip()
    if root.name or root.entity_type != "flow":
        return root.name or ""
    return _flow_class(document)


def _flow_class(document: Document) -> str:
    """Return the class of the flow that started first. Flows that it calls start later."""
    for node in document.event_record.nodes.values():
        event = node.event
        is_start = event.type in ("flow_started", "flow_created")
        if is_start and event.flow_name and event.flow_name not in INTERNAL_FLOWS:
            return event.flow_name
    return ""


# The events at which a resume or a fork begins.
RESTORES = ("checkpoint_restore_started", "checkpoint_fork_started")
STARTS = ("crew_kickoff_started", "flow_started", "lite_agent_execution_started")


def run_key_of(root: Entity | None, document: Document) -> str:
    """Return the key of a run: the id of its kickoff event, of the flow's execution, or of the root."""
    started = next(
        (event_id for event_id, node in document.event_record.nodes.items() if node.event.type in STARTS), ""
    )
    if root is None:
        return started
    # When an agent starts, the id of the event is not recorded in the agent yet.
    noted = root.checkpoint_kickoff_event_id or (started if root.entity_type == "agent" else "")
    return noted or _flow_id(root) or root.id or started


def _flow_id(root: Entity) -> str | None:
    if root.entity_type != "flow":
        return None
    try:
        state = _state.decode(root.checkpoint_state)
    except msgspec.ValidationError:
        state = _State()
    return state.id or (root.execution_context.flow_id if root.execution_context else None)


def progress_of(root: Entity | None, document: Document) -> tuple[int, int]:
    """Return the numbers of finished units and of all units: tasks, methods, or the single run of an agent.

    The second is 0 for a flow whose number of methods is not known yet.
    """
    if root is None:
        return 0, 0
    if root.entity_type == "crew":
        tasks = root.tasks or []
        return sum(task.is_done for task in tasks), len(tasks)
    if root.entity_type == "agent":
        events = [node.event for node in document.event_record.nodes.values()]
        return int(any(event.type == "lite_agent_execution_completed" for event in events)), 1
    return _methods_of(root, document)


def _methods_of(root: Entity, document: Document) -> tuple[int, int]:
    """Count a flow's methods. Until the flow has ended, only the methods that have begun are known."""
    name = _flow_class(document)
    events = [node.event for node in document.event_record.nodes.values()]
    # Leave out the methods of flows that this flow calls.
    of_flow = [event for event in events if event.flow_name and event.flow_name == name]
    done = set(root.checkpoint_completed_methods or ())
    ended = _named(of_flow, "method_execution_finished") | set(root.checkpoint_method_counts or ())
    if of_flow and of_flow[-1].type == "flow_finished" and ended <= done:
        # A method that began and never ended is not waited for, since the flow has finished.
        return len(done), len(done)
    known = done | ended | _named(of_flow, "method_execution_started")
    return len(done), len(known) if len(known) > len(done) else 0


def _named(events: Iterable[Event], kind: str) -> set[str]:
    """Return the names of the methods in the events of this kind."""
    return {event.method_name for event in events if event.type == kind and event.method_name}


def trigger_of(document: Document) -> str:
    """Return the trigger. The first versions do not record it, so for these it is the last event."""
    if document.trigger or document.crewai_version:
        return document.trigger or ""
    events = [node.event for node in document.event_record.nodes.values()]
    return max(events, key=lambda event: event.emission_sequence or 0).type if events else ""


def subject_of(document: Document, trigger: str) -> str:
    """Return the task or method of the trigger, on one line; empty if it has neither."""
    about = [node.event for node in document.event_record.nodes.values() if node.event.type == trigger]
    if not about:
        return ""
    last = max(about, key=lambda event: event.emission_sequence or 0)
    return short_title(last.method_name or _name.decode(last.task_name) or "")


def calls_of(document: Document) -> dict[str, ModelCall]:
    """Return the model calls by event id."""
    return {
        event_id: call_of(node.event.usage, node.event.model or "")
        for event_id, node in document.event_record.nodes.items()
        if node.event.usage and node.event.type == "llm_call_completed"
    }


def sessions_of(document: Document) -> list[tuple[str, float, float]]:
    """Return the sessions: the id of the first event, and the start and end in seconds since the epoch.

    A restore begins a session. Nothing ran between the restore and the event before it.
    """
    sessions: list[tuple[str, float, float]] = []
    for event_id, node in document.event_record.nodes.items():
        if (at := moment(node.event.timestamp)) is None:
            continue
        seconds = at.timestamp()
        if not sessions or node.event.type in RESTORES:
            sessions.append((event_id, seconds, seconds))
        else:
            first, start, end = sessions[-1]
            sessions[-1] = (first, start, max(end, seconds))
    return sessions

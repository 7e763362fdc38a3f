"""What a row of the list tells of a CrewAI checkpoint: what ran, how far it got, and why it was written."""

from collections.abc import Iterable
from typing import Any

import msgspec

from viewer.engines.crewai.format import Document, Entity, Event
from viewer.engines.crewai.root_entity import root_position
from viewer.engines.titles import short_title

# CrewAI runs agents with flows of its own, whose events stand between the user's.
INTERNAL_FLOWS = frozenset({"AgentExecutor", "CrewAgentExecutor", "CrewAgentExecutorFlow", "LiteAgent"})


class _State(msgspec.Struct):
    id: str | None = None


_state = msgspec.json.Decoder(_State)
_name = msgspec.json.Decoder(str | None)


def root_of(entities: Iterable[Entity]) -> Entity | None:
    """What a person ran; None if there is nothing of the kind."""
    all_of_them = list(entities)
    position = root_position([entity.facts for entity in all_of_them])
    return None if position is None else all_of_them[position]


def entity_type_of(entity: Entity | None) -> str:
    """Return ``crew``, ``flow``, ``agent`` or ``unknown``."""
    kind = entity.entity_type if entity else ""
    return (
        "crew" if kind == "crew" else "flow" if kind == "flow" else "agent" if kind == "agent" else "unknown"
    )


def name_of(root: Entity | None, document: Document) -> str:
    """The crew's name, the agent's role, or the flow's class, which only its events tell."""
    if root is None:
        return ""
    if root.entity_type == "agent":
        return (root.role or "").strip()
    if root.name or root.entity_type != "flow":
        return root.name or ""
    return _flow_class(document)


def _flow_class(document: Document) -> str:
    """The class of the flow that was started first: those that it starts itself come after it."""
    for node in document.event_record.nodes.values():
        event = node.event
        is_start = event.type in ("flow_started", "flow_created")
        if is_start and event.flow_name and event.flow_name not in INTERNAL_FLOWS:
            return event.flow_name
    return ""


STARTS = ("crew_kickoff_started", "flow_started", "lite_agent_execution_started")


def run_key_of(root: Entity | None, document: Document) -> str:
    """What tells one kickoff from another: its event, else the flow's execution, else what ran."""
    started = next(
        (event_id for event_id, node in document.event_record.nodes.items() if node.event.type in STARTS), ""
    )
    if root is None:
        return started
    # At an agent's start the event is not yet noted on it; from then on it is.
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
    """Done, and how many there are: a crew's tasks, a flow's methods, or an agent's one run.

    Of a flow's methods the second is 0 where nothing says how many there will be.
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
    """A flow's methods. It knows only those that have begun: that these are all, its end alone tells."""
    name = _flow_class(document)
    events = [node.event for node in document.event_record.nodes.values()]
    # Flows that it starts itself have methods of their own.
    own = [event for event in events if event.flow_name and event.flow_name == name]
    done = set(root.checkpoint_completed_methods or ())
    ended = _named(own, "method_execution_finished") | set(root.checkpoint_method_counts or ())
    if own and own[-1].type == "flow_finished" and ended <= done:
        # One that has begun and never ended was overtaken by another: nothing waits for it.
        return len(done), len(done)
    known = done | ended | _named(own, "method_execution_started")
    return len(done), len(known) if len(known) > len(done) else 0


def _named(events: Iterable[Event], kind: str) -> set[str]:
    """The methods that events of this kind are about."""
    return {event.method_name for event in events if event.type == kind and event.method_name}


def trigger_of(document: Document) -> str:
    """What the checkpoint was written at. The first versions do not say: it was the last event."""
    if document.trigger or document.crewai_version:
        return document.trigger or ""
    events = [node.event for node in document.event_record.nodes.values()]
    return max(events, key=lambda event: event.emission_sequence or 0).type if events else ""


def subject_of(document: Document, trigger: str) -> str:
    """The task or method that the trigger was about, in one line; empty where it was about neither."""
    about = [node.event for node in document.event_record.nodes.values() if node.event.type == trigger]
    if not about:
        return ""
    last = max(about, key=lambda event: event.emission_sequence or 0)
    return short_title(last.method_name or _name.decode(last.task_name) or "")


def calls_of(document: Document) -> dict[str, int]:
    """The tokens of each model call, by event id."""
    return {
        event_id: _tokens(node.event.usage)
        for event_id, node in document.event_record.nodes.items()
        if node.event.usage and node.event.type == "llm_call_completed"
    }


def _tokens(usage: dict[str, Any]) -> int:
    """The total that the model reported, or the sum of what went in and came out."""
    total = _count(usage.get("total_tokens"))
    if total:
        return total
    went_in = _count(usage.get("prompt_tokens")) or _count(usage.get("input_tokens"))
    return went_in + (_count(usage.get("completion_tokens")) or _count(usage.get("output_tokens")))


def _count(value: Any) -> int:
    return min(value, 2**40) if isinstance(value, int) and value > 0 else 0

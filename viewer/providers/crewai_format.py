"""CrewAI's checkpoints, from 1.14.0a4 on: the structs are what is known of the format.

Only the fields that a row of the list needs are decoded; the rest is skipped over, and stored as it is.

=================  ==================================================================================
1.14.0a4 - 1.14.1  ``entities``, ``event_record``; ``<ts>_<uuid8>.json``; columns id, created_at, data
1.14.2 and later   also ``crewai_version``, ``parent_id``, ``branch``, ``trigger`` (on automatic
                   writes); ``<branch>/<ts>_<uuid8>_p-<parent>.json``; columns parent_id, branch
=================  ==================================================================================
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from viewer.providers.snapshot import EntityType

# CrewAI runs agents with flows of its own, whose events stand between the user's.
INTERNAL_FLOWS = frozenset({"AgentExecutor", "CrewAgentExecutor", "CrewAgentExecutorFlow", "LiteAgent"})


class Event(msgspec.Struct, gc=False):
    """One thing that happened. ``usage`` is that of a model call, in tokens."""

    type: str = ""
    emission_sequence: int | None = None
    flow_name: str | None = None
    method_name: str | None = None
    # Decoded only where it is asked for: every event of a task repeats it.
    task_name: msgspec.Raw = msgspec.Raw(b"null")
    usage: dict[str, Any] | None = None


class EventNode(msgspec.Struct, gc=False):
    """An event in the record; its edges to other events are not needed here."""

    event: Event


class EventRecord(msgspec.Struct, gc=False):
    """Everything that happened so far, by event id, in the order in which it was recorded."""

    nodes: dict[str, EventNode] = {}


class Task(msgspec.Struct, gc=False):
    """``output`` is null until the task is done."""

    output: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def is_done(self) -> bool:
        return bytes(self.output)[:1] == b"{"


class ExecutionContext(msgspec.Struct, gc=False):
    flow_id: str | None = None


class Entity(msgspec.Struct, gc=False):
    """Something restorable: a crew, a flow or an agent. An agent's executor is stored as a flow too."""

    entity_type: str = ""
    name: str | None = None
    id: str | None = None
    role: str | None = None
    tasks: list[Task] | None = None
    executor_type: str | None = None
    suppress_flow_events: bool | None = None
    execution_context: ExecutionContext | None = None
    checkpoint_kickoff_event_id: str | None = None
    checkpoint_state: msgspec.Raw = msgspec.Raw(b"null")
    checkpoint_completed_methods: list[str] | None = None
    checkpoint_method_counts: dict[str, int] | None = None

    @property
    def is_executor(self) -> bool:
        """Whether it is an agent's executor, which is nothing that a person ran."""
        return self.entity_type == "flow" and (
            bool(self.executor_type) or (not self.name and self.suppress_flow_events is True)
        )


class Document(msgspec.Struct, gc=False):
    """A whole checkpoint. Its id stands outside: in the file's name, or beside it in the row."""

    entities: list[Entity]
    event_record: EventRecord
    crewai_version: str | None = None
    parent_id: str | None = None
    branch: str | None = None
    trigger: str | None = None


class _State(msgspec.Struct):
    id: str | None = None


_document = msgspec.json.Decoder(Document)
_state = msgspec.json.Decoder(_State)
_name = msgspec.json.Decoder(str | None)
_ID_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)_", re.ASCII)


def document_of(data: bytes) -> Document:
    """The decoded checkpoint. Raises msgspec.DecodeError for no JSON, its ValidationError for other JSON."""
    try:
        return _document.decode(data)
    except msgspec.ValidationError:
        return _document.decode(msgspec.json.encode(_shaped(msgspec.json.decode(data))))


def _shaped(value: Any) -> Any:
    """A checkpoint of which some field has a type that no version writes, with such fields left out."""
    record = value.get("event_record") if isinstance(value, dict) else None
    nodes = record.get("nodes") if isinstance(record, dict) else None
    if not isinstance(nodes, dict) or not isinstance(value.get("entities"), list):
        raise msgspec.ValidationError("It has no list of entities, or no record of events.")
    return {
        **_fitting({**value, "entities": [], "event_record": {}}, Document),
        "entities": [_fitting(entity, Entity) for entity in value["entities"] if isinstance(entity, dict)],
        "event_record": {
            "nodes": {
                name: {"event": _fitting(node["event"], Event)}
                for name, node in nodes.items()
                if isinstance(node, dict) and isinstance(node.get("event"), dict)
            }
        },
    }


def _fitting(value: dict[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Those of the struct's fields whose values have the struct's types."""
    fitting: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        if field.name in value:
            with suppress(msgspec.ValidationError):
                msgspec.json.decode(msgspec.json.encode(value[field.name]), type=field.type)
                fitting[field.name] = value[field.name]
    return fitting


def root_of(entities: Iterable[Entity]) -> Entity | None:
    """What a person ran: their flow (which may have run crews), else the crew, else the lone agent."""
    mine = [entity for entity in entities if not entity.is_executor]
    for kind in ("flow", "crew", "agent"):
        for entity in mine:
            if entity.entity_type == kind:
                return entity
    # A flow that only asked for a quiet console looks like an executor.
    return next((entity for entity in entities if not entity.executor_type), None)


def entity_type_of(entity: Entity | None) -> EntityType:
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
    return " ".join((last.method_name or _name.decode(last.task_name) or "").split())


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


def created_at(checkpoint_id: str) -> datetime | None:
    """When it was written, in UTC, from its id; None where the id does not tell."""
    match = _ID_TIME.match(checkpoint_id)
    if not match:
        return None
    try:
        year, month, day, hour, minute, second = map(int, match.groups())
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None


def id_and_parent(stem: str) -> tuple[str, str | None]:
    """What a file's name (without ``.json``) tells: ``<id>_p-<parent or none>``, or the id alone."""
    checkpoint_id, separator, parent = stem.partition("_p-")
    return checkpoint_id, parent if separator and parent not in ("", "none") else None

"""What rows and pages say alike, however a checkpoint is decoded: its root entity, and its skipped tasks."""

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from typing import Any, NamedTuple

import msgspec

# In order of preference: a checkpoint of a flow also has the crews that it ran, and one of a crew its agents.
KINDS = ("flow", "crew", "agent")
# A state that a flow with ``@persist`` stored, which CrewAI does not call a checkpoint.
STATE = "flow_state"
# The trigger of such a state if the flow waits for the feedback of a person.
WAITING = "feedback_pending"


class EntityFacts(NamedTuple):
    """The facts by which the root entity is chosen, however the entity was decoded."""

    kind: str
    has_executor_type: bool
    has_name: bool
    is_quiet: bool


def is_executor(entity: EntityFacts) -> bool:
    """Whether an entity is the executor of an agent, which is stored as a flow but is never the root."""
    return entity.kind == "flow" and (entity.has_executor_type or (not entity.has_name and entity.is_quiet))


def root_position(entities: Sequence[EntityFacts]) -> int | None:
    """The position of the root: the flow, else the crew, else the agent. None if there is none."""
    for kind in KINDS:
        for position, entity in enumerate(entities):
            if entity.kind == kind and not is_executor(entity):
                return position
    # A flow that suppresses its events looks like an executor. It is the root if no other entity is.
    return next((position for position, one in enumerate(entities) if not one.has_executor_type), None)


def skipped_positions(tasks: Sequence[tuple[bool, bool]], has_completed: bool) -> set[int]:
    """The positions, from 0, of a crew's tasks that were skipped because their condition did not hold.

    ``tasks`` say of each whether it has an output and whether it has started. Tasks start in their order, so
    one that never did was skipped if a later one has started, or if the crew has completed.
    """
    begun = [number for number, facts in enumerate(tasks) if any(facts)]
    until = len(tasks) if has_completed else begun[-1] if begun else 0
    return {number for number in range(until) if not any(tasks[number])}


# The format of CrewAI's checkpoints since 1.14.0a4, as structs.
#
# Only the fields that a list of checkpoints needs are decoded. The others are skipped, and stored unchanged.
#
# =================  ==================================================================================
# 1.14.0a4 - 1.14.1  ``entities``, ``event_record``; ``<ts>_<uuid8>.json``; columns id, created_at, data
# 1.14.2 and later   also ``crewai_version``, ``parent_id``, ``branch``, ``trigger`` (on automatic
# writes); ``<branch>/<ts>_<uuid8>_p-<parent>.json``; columns parent_id, branch
# =================  ==================================================================================


class Event(msgspec.Struct, gc=False):
    """One event. ``usage`` is the usage of a model call, in tokens."""

    type: str = ""
    emission_sequence: int | None = None
    flow_name: str | None = None
    method_name: str | None = None
    # Decoded only when needed, since every event of a task repeats it.
    task_name: msgspec.Raw = msgspec.Raw(b"null")
    usage: dict[str, Any] | None = None
    model: str | None = None
    timestamp: str | None = None
    task_id: str | None = None
    started_event_id: str | None = None


class EventNode(msgspec.Struct, gc=False):
    """An event in the record, without its edges to other events."""

    event: Event


class EventRecord(msgspec.Struct, gc=False):
    """All events so far, by event id, in the order in which they were recorded."""

    nodes: dict[str, EventNode] = {}


class Task(msgspec.Struct, gc=False):
    """A task. ``output`` is null until the task is done."""

    output: msgspec.Raw = msgspec.Raw(b"null")
    id: str | None = None

    @property
    def is_done(self) -> bool:
        return bytes(self.output)[:1] == b"{"


class ExecutionContext(msgspec.Struct, gc=False):
    """The execution context of an entity."""

    flow_id: str | None = None


class Entity(msgspec.Struct, gc=False):
    """A crew, a flow or an agent. The executor of an agent is also stored as a flow."""

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
    def facts(self) -> EntityFacts:
        """The facts by which the root entity is chosen."""
        return EntityFacts(
            self.entity_type, bool(self.executor_type), bool(self.name), self.suppress_flow_events is True
        )


class Document(msgspec.Struct, gc=False):
    """A checkpoint without its id, which is in the file's name or in another column of the row."""

    entities: list[Entity]
    event_record: EventRecord
    crewai_version: str | None = None
    parent_id: str | None = None
    branch: str | None = None
    trigger: str | None = None


_document = msgspec.json.Decoder(Document)
_ID_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)_", re.ASCII)


def document_of(data: bytes) -> Document:
    """Return the checkpoint. Raises msgspec.DecodeError, or ValidationError for JSON of another shape."""
    try:
        return _document.decode(data)
    except msgspec.ValidationError:
        return _document.decode(msgspec.json.encode(_shaped(msgspec.json.decode(data))))


def _shaped(value: Any) -> Any:
    """Return a checkpoint without the fields whose types no known version writes."""
    record = value.get("event_record") if isinstance(value, dict) else None
    nodes = record.get("nodes") if isinstance(record, dict) else None
    entities = value.get("entities") if isinstance(value, dict) else None
    if _is_of_other_shape(value):
        # Written by a newer version. Read the parts that it has in common with the known versions.
        nodes = nodes if isinstance(nodes, dict) else {}
        entities = entities if isinstance(entities, list) else []
    if not isinstance(nodes, dict) or not isinstance(entities, list):
        raise msgspec.ValidationError("It has no list of entities, or no record of events.")
    return {
        **_fitting({**value, "entities": [], "event_record": {}}, Document),
        "entities": [_fitting(entity, Entity) for entity in entities if isinstance(entity, dict)],
        "event_record": {
            "nodes": {
                name: {"event": _fitting(node["event"], Event)}
                for name, node in nodes.items()
                if isinstance(node, dict) and isinstance(node.get("event"), dict)
            }
        },
    }


def _is_of_other_shape(value: Any) -> bool:
    """Whether a checkpoint names the version that wrote it and has at least one known part."""
    if not isinstance(value, dict) or not isinstance(value.get("crewai_version"), str):
        return False
    return "entities" in value or "event_record" in value


def _fitting(value: dict[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the fields whose values have the struct's types."""
    fitting: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        if field.name in value:
            with suppress(msgspec.ValidationError):
                msgspec.json.decode(msgspec.json.encode(value[field.name]), type=field.type)
                fitting[field.name] = value[field.name]
    return fitting


def created_at(checkpoint_id: str) -> datetime | None:
    """Return the UTC time at which a checkpoint was written; None if its id does not contain a time.

    Also None for the first and the last year, in which another time zone may have no such time.
    """
    match = _ID_TIME.match(checkpoint_id)
    if not match:
        return None
    try:
        year, month, day, hour, minute, second = map(int, match.groups())
        if not MINYEAR < year < MAXYEAR:
            return None
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None


def id_and_parent(stem: str) -> tuple[str, str | None]:
    """Return the id and the parent's id in a file's name: ``<id>_p-<parent or none>``, or only the id.

    ``stem`` is the name without ``.json``. The parent's id is None if there is no parent.
    """
    checkpoint_id, separator, parent = stem.partition("_p-")
    return checkpoint_id, parent if separator and parent not in ("", "none") else None

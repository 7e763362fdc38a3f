"""Recognises CrewAI's checkpoints in a reader process, and reads their columns."""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from viewer.engines.contents import short_title
from viewer.engines.crewai.recorded_events import STATE, moment
from viewer.redaction import MARKER
from viewer.stores import DatabaseFile, protocol

# In order of preference: a checkpoint of a flow also has the crews that it ran, and one of a crew its agents.
KINDS = ("flow", "crew", "agent")


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


# The columns of a CrewAI checkpoint: root entity, name, run, progress, trigger, calls and sessions.


# CrewAI runs agents in internal flows, whose events are recorded with those of the user's flow.
INTERNAL_FLOWS = frozenset({"AgentExecutor", "CrewAgentExecutor", "CrewAgentExecutorFlow", "LiteAgent"})


class _State(msgspec.Struct):
    id: str | None = None


_state = msgspec.json.Decoder(_State)
_name = msgspec.json.Decoder(str | None)


def root_of(entities: Sequence[Entity]) -> Entity | None:
    """Return the root entity; None if there is none."""
    position = root_position([entity.facts for entity in entities])
    return None if position is None else entities[position]


def entity_type_of(entity: Entity | None) -> str:
    """Return ``crew``, ``flow``, ``agent``, ``flow_state`` or ``unknown``."""
    kind = entity.entity_type if entity else ""
    return kind if kind in (*KINDS, STATE) else "unknown"


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
WRITE_STARTED = "checkpoint_started"
WRITES_ENDED = ("checkpoint_completed", "checkpoint_failed")
# Ends the type of an event about the environment of a process, such as ``default_env``.
ENVIRONMENT = "_env"
EVENTS_BEFORE_ENVIRONMENT = 2
# Seconds. A process takes longer to start.
MIN_PAUSE = 0.5
# The endings of the types of events with which a process may begin. It ends nothing that another began.
FIRST_OF_PROCESS = (ENVIRONMENT, "_started", "_created", "_requested", "_received")
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
        return _tasks_of(root, document)
    if root.entity_type == "agent":
        events = [node.event for node in document.event_record.nodes.values()]
        return int(any(event.type == "lite_agent_execution_completed" for event in events)), 1
    if root.entity_type == STATE:
        return len(root.checkpoint_completed_methods or ()), 0
    return _methods_of(root, document)


def _tasks_of(root: Entity, document: Document) -> tuple[int, int]:
    """Count a crew's tasks. Those that were skipped do not count."""
    tasks, events = root.tasks or [], [node.event for node in document.event_record.nodes.values()]
    done = [task.is_done for task in tasks]
    if all(done):
        return len(tasks), len(tasks)
    started = {event.task_id for event in events if event.type == "task_started"}
    kickoff = root.checkpoint_kickoff_event_id
    has_completed = any(
        event.type == "crew_kickoff_completed" and kickoff and event.started_event_id == kickoff
        for event in events
    )
    facts = [(task.is_done, task.id in started) for task in tasks]
    return sum(done), len(tasks) - len(skipped_positions(facts, has_completed))


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
    return short_title(last.method_name or _text_in(last.task_name))


def _text_in(value: msgspec.Raw) -> str:
    """The text in a JSON value; empty for any other value."""
    try:
        return _name.decode(value) or ""
    except msgspec.ValidationError:
        return ""


def calls_of(document: Document) -> dict[str, protocol.ModelCall]:
    """Return the model calls by event id."""
    return {
        event_id: protocol.call_of(node.event.usage, node.event.model or "")
        for event_id, node in document.event_record.nodes.items()
        if node.event.usage and node.event.type == "llm_call_completed"
    }


def sessions_of(document: Document) -> list[tuple[str, float, float]]:
    """Return the sessions: the id of the first event, and the start and end in seconds since the epoch.

    A restore begins a session. Nothing ran between it and the event before.
    """
    timed = [
        (event_id, node.event.type, at.timestamp())
        for event_id, node in document.event_record.nodes.items()
        if (at := moment(node.event.timestamp)) is not None
    ]
    begins = set(restarts([(kind, at) for _id, kind, at in timed]))
    sessions: list[tuple[str, float, float]] = []
    for number, (event_id, _kind, seconds) in enumerate(timed):
        if not sessions or number in begins:
            sessions.append((event_id, seconds, seconds))
        else:
            first, start, end = sessions[-1]
            sessions[-1] = (first, start, max(end, seconds))
    return sessions


def restarts(events: Sequence[tuple[str, float]]) -> list[int]:
    """Return the positions of the events with which a resume or a fork begins.

    ``events`` are the types and times of all events. The engine seldom records a restore. It records each
    write of a checkpoint as started and completed, but the written checkpoint has only its start: so another
    process recorded what follows a start without an end. Each process also records its environment, among the
    first of its events. Nothing ran before them, so the longest pause there is the one before the process.
    """
    kinds = [kind for kind, _at in events]
    pauses = [0.0, *(after[1] - before[1] for before, after in pairwise(events))]
    unended = _unended_writes(kinds)
    found: list[int] = []
    write, has_worked = -1, False
    for number, kind in enumerate(kinds):
        if kind in RESTORES:
            found.append(number)
            write = -1
        elif kind.endswith(ENVIRONMENT) and (has_worked or write >= 0):
            first = max(write, number - EVENTS_BEFORE_ENVIRONMENT - 1, *found[-1:]) + 1
            at = max(range(first, number + 1), key=lambda at: pauses[at], default=number)
            found += [at] if pauses[at] >= MIN_PAUSE else []
            write = -1
        elif (
            write >= 0
            and number not in unended
            and kind.endswith(FIRST_OF_PROCESS)
            and not any(one.endswith(ENVIRONMENT) for one in kinds[number : number + 3])
        ):
            found += [number] if pauses[number] >= MIN_PAUSE else []
            write = -1
        if number in unended:
            write = number
        has_worked |= kind.endswith(("_completed", "_finished"))
    return found


def _unended_writes(kinds: Sequence[str]) -> set[int]:
    """The positions of writes of checkpoints that are not followed by an end of their own."""
    ends, unended = 0, set()
    for number in reversed(range(len(kinds))):
        ends += kinds[number] in WRITES_ENDED
        if kinds[number] == WRITE_STARTED:
            unended |= set() if ends else {number}
            ends = max(0, ends - 1)
    return unended


# Recognises and reads CrewAI's checkpoints. Used in a reader process.


FIRST_BRANCH = "main"


class CrewAIFormat(protocol.StoreFormat):
    """Reads files named ``<branch>/<id>_p-<parent>.json``, and rows with such an id."""

    engine = "crewai"

    def ids_in_path(self, path: str) -> protocol.RecordedIds:
        """The id and parent in the file's name, and the branch in the folder's path."""
        folder, _slash, name = path.rpartition("/")
        checkpoint_id, parent_id = id_and_parent(name.removesuffix(".json"))
        return protocol.RecordedIds(checkpoint_id, parent_id, folder)

    def ids_in_row(self, key: str, parent_id: str | None, branch: str) -> protocol.RecordedIds:
        """The id in the key, and the row's own parent and branch."""
        checkpoint_id, _parent_id = id_and_parent(key)
        return protocol.RecordedIds(checkpoint_id, parent_id, branch)

    def state_store(
        self, file: DatabaseFile, limits: protocol.ReadLimits, formats: Sequence[protocol.StoreFormat]
    ) -> protocol.Store:
        """The states that flows with ``@persist`` write."""
        from viewer.engines.crewai.flow_states import FlowStates

        return FlowStates(file, limits, formats)

    def snapshot_of(self, body: bytes, entry: protocol.Entry, ids: protocol.RecordedIds) -> protocol.Snapshot:
        """The snapshot of a redacted JSON text. Raises Foreign, or msgspec.DecodeError."""
        try:
            document = document_of(body)
        except msgspec.ValidationError:
            raise protocol.Foreign("store.json_without_entities") from None
        return _snapshot(document, body, entry, ids)


def _snapshot(
    document: Document, body: bytes, entry: protocol.Entry, ids: protocol.RecordedIds
) -> protocol.Snapshot:
    root = root_of(document.entities)
    done, total = progress_of(root, document)
    trigger = trigger_of(document)
    return protocol.Snapshot(
        key=entry.key,
        fingerprint=entry.fingerprint,
        size=entry.size,
        checkpoint_id=ids.checkpoint_id,
        parent_id=_inside_or_outside(document.parent_id, ids.parent_id),
        branch=_inside_or_outside(document.branch, ids.branch) or FIRST_BRANCH,
        trigger=trigger,
        subject=subject_of(document, trigger),
        created_at=created_at(ids.checkpoint_id),
        engine_version=document.crewai_version or "",
        entity=entity_type_of(root),
        name=name_of(root, document),
        run_key=run_key_of(root, document),
        units_done=done,
        units_total=total,
        event_ids=tuple(document.event_record.nodes),
        calls=calls_of(document),
        # A state records when it was stored, not when its session began.
        sessions=[] if root and root.entity_type == STATE else sessions_of(document),
        body=body,
        engine="crewai",
    )


def _inside_or_outside(inside: str | None, outside: str | None) -> str | None:
    """Return the value inside the checkpoint; if it is missing or redacted, that in the name or row."""
    return outside if outside and (not inside or MARKER in inside) else inside


STORE_FORMAT = CrewAIFormat()

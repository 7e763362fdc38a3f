"""The contents of a stored checkpoint: inputs, tasks, state, agents and events.

Bodies may be hostile and come from many versions of the engine. So a value with an unexpected type is left
out, and reading never raises.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from typing import Any, Literal, get_args

from viewer.engines.contents import Agent, Failure, short_title
from viewer.engines.crewai.recorded_events import STATE, Event, events_of, listed, mapping, text, whole
from viewer.engines.crewai.store_format import EntityFacts, is_executor, root_position, skipped_positions

EntityKind = Literal["crew", "flow", "agent", "flow_state", "unknown"]

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Task:
    """One task of a crew. ``template`` is the description with its {placeholders}.

    ``output`` is the text of its output, None until the task is done. ``output_json`` is the value of an
    output in JSON, else None. ``output_for`` is the description that the output was made for; after an edit
    of an input, it differs from ``description``.
    """

    id: str
    position: int
    name: str
    description: str
    template: str
    expected_output: str
    agent: str
    done: bool
    output: str | None
    output_json: Any
    output_for: str
    tools: tuple[str, ...]
    # The expected output with its {placeholders}.
    expected_template: str = ""
    is_async: bool = False
    # Whether its condition did not hold: it never started, but a later task did, or the crew has completed.
    is_skipped: bool = False

    @property
    def title(self) -> str:
        return self.name or short_title(self.description) or self.id

    @property
    def is_stale(self) -> bool:
        """Whether the output was made for another description than the current one."""
        return self.done and bool(self.output_for) and self.output_for != self.description


@dataclass(frozen=True, slots=True)
class Method:
    """One method of a flow that has run. ``count`` is the number of times that it ran."""

    name: str
    done: bool
    count: int
    output: Any


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity in the checkpoint that can be restored. The root is what a person ran."""

    kind: str
    name: str
    id: str
    is_root: bool
    is_executor: bool


@dataclass(frozen=True, slots=True)
class Feedback:
    """The feedback of a person that a flow waits for, after the method with this output.

    ``outcomes`` are those that the answer chooses from; empty if it is only passed on.
    """

    method: str
    message: str
    output: Any
    outcomes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Contents:
    """A decoded checkpoint. ``flow_state`` is None for all kinds but flows and their states."""

    kind: EntityKind
    name: str
    id: str
    engine_version: str
    inputs: dict[str, Any]
    tasks: tuple[Task, ...]
    methods: tuple[Method, ...]
    flow_state: dict[str, Any] | None
    agents: tuple[Agent, ...]
    entities: tuple[Entity, ...]
    events: tuple[Event, ...] = field(repr=False)
    # The events at which the run writes checkpoints; empty if they are not recorded.
    checkpoint_events: tuple[str, ...] = ()
    # The parts that no known version writes, and missing parts that every known version writes.
    unknown: tuple[str, ...] = ()
    unreadable: Mapping[str, Any] = field(default_factory=dict)
    feedback: Feedback | None = None

    @property
    def engine(self) -> str:
        """The name of the engine."""
        return "crewai"

    @property
    def is_of_newer_version(self) -> bool:
        """Whether it was written by a version of CrewAI that is newer than every known version."""
        return is_newer(self.engine_version)

    @property
    def failure(self) -> Failure | None:
        """The error of the last failure, and the subject that first failed with it; None if none did."""
        failures = [event for event in self.events if event.is_failure and event.text]
        if not failures:
            return None
        error = failures[-1].text
        first = next(event for event in failures if event.text == error)
        return Failure(first.subject, error)


def contents_of(body: Body) -> Contents:
    """Return the contents of a decoded checkpoint."""
    entities = [entity for entity in listed(body.get("entities")) if isinstance(entity, dict)]
    position = root_position(list(map(_facts, entities)))
    # What a person ran; empty if the checkpoint has no root entity.
    root = {} if position is None else entities[position]
    kind = text(root.get("entity_type"))
    events = events_of(body)
    found = [root] if kind == "agent" else listed(root.get("agents"))
    agents = tuple(_agent(agent) for agent in found if isinstance(agent, dict))
    return Contents(
        kind=next((known for known in get_args(EntityKind) if known == kind), "unknown"),
        name=_name(root, kind, events),
        id=text(root.get("id")) or text(mapping(root.get("checkpoint_state")).get("id")),
        engine_version=text(body.get("crewai_version")),
        inputs=_inputs(root, kind, events),
        tasks=_tasks(root, agents, events),
        methods=_methods(root),
        flow_state=mapping(root.get("checkpoint_state")) if kind in ("flow", STATE) else None,
        agents=agents,
        entities=tuple(_entity(entity, entity is root) for entity in entities),
        events=events,
        checkpoint_events=tuple(map(text, listed(mapping(root.get("checkpoint")).get("on_events")))),
        unknown=tuple(islice(_unknown_parts(body), MAX_PARTS)),
        feedback=_feedback(root) if kind == STATE else None,
    )


def _feedback(root: Body) -> Feedback | None:
    asked = root.get("pending_feedback")
    if not isinstance(asked, dict):
        return None
    outcomes = tuple(one for one in listed(asked.get("emit")) if isinstance(one, str))
    return Feedback(
        text(asked.get("method_name")), text(asked.get("message")), asked.get("method_output"), outcomes
    )


def completed(contents: Contents) -> Contents:
    """The contents of a checkpoint at which the run completed: its other tasks were skipped."""
    tasks = (task if task.done else replace(task, is_skipped=True) for task in contents.tasks)
    return replace(contents, tasks=tuple(tasks))


def _facts(entity: Body) -> EntityFacts:
    return EntityFacts(
        text(entity.get("entity_type")),
        bool(entity.get("executor_type")),
        bool(entity.get("name")),
        entity.get("suppress_flow_events") is True,
    )


def _name(root: Body, kind: str, events: tuple[Event, ...]) -> str:
    if kind == "agent":
        return text(root.get("role"))
    if kind == "flow":
        named = [event.flow for event in events if event.kind == "flow_started" and not event.is_internal]
        return text(root.get("name")) or (named[0] if named else "")
    return text(root.get("name"))


# The events with which a root entity starts.
_KICKOFFS = {"crew": "crew_kickoff_started", "flow": "flow_started"}


def _inputs(root: Body, kind: str, events: tuple[Event, ...]) -> dict[str, Any]:
    """The inputs of the root entity, not those of crews or flows that it runs."""
    if isinstance(root.get("checkpoint_inputs"), dict):
        return dict(root["checkpoint_inputs"])
    kickoffs = [event for event in events if event.kind == _KICKOFFS.get(kind) and not event.is_internal]
    own = text(root.get("checkpoint_kickoff_event_id"))
    kickoff = next((event for event in kickoffs if event.id == own), next(iter(kickoffs), None))
    return dict(kickoff.inputs) if kickoff else {}


def _agent(agent: Body) -> Agent:
    llm = agent.get("llm")
    return Agent(
        id=text(agent.get("id")),
        role=text(agent.get("role")).strip(),
        goal=text(agent.get("goal")),
        backstory=text(agent.get("backstory")),
        model=text(llm) or text(mapping(llm).get("model")),
        tools=_tool_names(agent),
    )


def _tool_names(owner: Body) -> tuple[str, ...]:
    tools = [mapping(tool) for tool in listed(owner.get("tools"))]
    return tuple(text(tool.get("name")) or text(tool.get("tool_type")) for tool in tools if tool)


def _tasks(root: Body, agents: tuple[Agent, ...], events: Sequence[Event]) -> tuple[Task, ...]:
    roles = {agent.id: agent.role for agent in agents}
    tasks = [task for task in listed(root.get("tasks")) if isinstance(task, dict)]
    found = [_task(task, position, roles) for position, task in enumerate(tasks, 1)]
    started = {event.task_id for event in events if event.kind == "task_started"}
    kickoff = text(root.get("checkpoint_kickoff_event_id"))
    has_completed = any(
        event.kind == "crew_kickoff_completed" and kickoff and event.started == kickoff for event in events
    )
    skipped = skipped_positions([(task.done, task.id in started) for task in found], has_completed)
    return tuple(replace(task, is_skipped=task.position - 1 in skipped) for task in found)


def _task(task: Body, position: int, roles: Mapping[str, str]) -> Task:
    agent, output = task.get("agent"), mapping(task.get("output"))
    description = text(task.get("description"))
    return Task(
        id=text(task.get("id")),
        position=position,
        name=text(task.get("name")),
        description=description,
        template=text(task.get("checkpoint_original_description")) or description,
        expected_output=text(task.get("expected_output")),
        expected_template=text(task.get("checkpoint_original_expected_output"))
        or text(task.get("expected_output")),
        agent=roles.get(text(agent), text(agent)) or text(mapping(agent).get("role")).strip(),
        done=bool(output),
        output=text(output.get("raw")) if output else None,
        output_json=_json_output(output),
        output_for=text(output.get("description")),
        tools=_tool_names(task),
        is_async=task.get("async_execution") is True,
    )


def _json_output(output: Body) -> Any:
    """The value of an output in JSON; None for an output in text.

    The engine writes a Pydantic model as an empty object. Its fields are read from the text of the output.
    """
    values = [output[key] for key in ("json_dict", "pydantic") if output.get(key) is not None]
    found = next((value for value in values if value), None)
    if found is not None or not values:
        return found
    try:
        return json.loads(text(output.get("raw")))
    except (ValueError, RecursionError):
        return None


def _methods(root: Body) -> tuple[Method, ...]:
    counts = mapping(root.get("checkpoint_method_counts"))
    done = [text(name) for name in listed(root.get("checkpoint_completed_methods"))]
    written = listed(root.get("checkpoint_method_outputs"))
    # Later versions write the method with its output, earlier ones only the output.
    outputs = {
        text(entry["method"]): entry["output"]
        for entry in written
        if isinstance(entry, dict) and entry.keys() >= {"method", "output"}
    }
    if not outputs and len(written) == len(counts):
        # If a method ran more than once, its outputs cannot be assigned.
        outputs = dict(zip(counts, written, strict=True))
    names = list(dict.fromkeys([*counts, *done]))
    return tuple(Method(name, name in done, whole(counts.get(name)), outputs.get(name)) for name in names)


def _entity(entity: Body, is_root: bool) -> Entity:
    return Entity(
        kind=text(entity.get("entity_type")),
        name=text(entity.get("name")) or text(entity.get("role")).strip(),
        id=text(entity.get("id")),
        is_root=is_root,
        is_executor=is_executor(_facts(entity)),
    )


# The parts of a checkpoint that no known version of CrewAI writes.


# The newest version whose checkpoints are tested. Every row of docs/matrix.md runs on it.
NEWEST_KNOWN = "1.15.30"
KNOWN_KEYS = {"entities", "event_record", "crewai_version", "parent_id", "branch", "trigger"}
KNOWN_ENTITIES = {"crew", "flow", "agent", STATE}
MAX_PARTS = 20
# Characters of a version that are compared. Python reads no number with thousands of digits.
MAX_VERSION = 100
_NUMBERS = re.compile(r"\d+")


def is_newer(version: str) -> bool:
    """Whether this version of CrewAI is newer than every known version."""
    have, known = (
        tuple(map(int, _NUMBERS.findall(one)[:3])) for one in (version[:MAX_VERSION], NEWEST_KNOWN)
    )
    return have > known


def _unknown_parts(body: Mapping[str, Any]) -> Iterator[str]:
    """The unknown and missing parts, such as ``memory_graph`` or ``entities[2] (swarm)``."""
    yield from (key for key in body if key not in KNOWN_KEYS)
    if not isinstance(body.get("entities"), list):
        yield "entities"
    for number, entity in enumerate(listed(body.get("entities"))):
        kind = text(mapping(entity).get("entity_type"))
        if kind not in KNOWN_ENTITIES:
            yield f"entities[{number}] ({kind})" if kind else f"entities[{number}]"
        elif kind == "crew" and not isinstance(mapping(entity).get("tasks"), list):
            yield f"entities[{number}].tasks"
    if not isinstance(mapping(body.get("event_record")).get("nodes"), dict):
        yield "event_record"


# Compares the tasks of a checkpoint with those at the origin of its branch.


class TaskChange(StrEnum):
    """What has happened to a task since the origin of its branch."""

    KEPT = "kept"
    EDITED = "edited"
    RAN_AGAIN = "ran_again"
    RAN = "ran"
    TO_RUN = "to_run"


def changes_since(origin: Contents, contents: Contents) -> dict[str, TaskChange]:
    """Return the change of each task of ``contents`` since ``origin``, by task id."""
    known = {event.id for event in origin.events}
    completed = {
        event.task_id for event in contents.events if event.kind == "task_completed" and event.id not in known
    }
    before = {task.id: task for task in origin.tasks}
    changes: dict[str, TaskChange] = {}
    for task in contents.tasks:
        former = before.get(task.id)
        was_done = former is not None and former.done
        if not task.done:
            changes[task.id] = TaskChange.TO_RUN
        elif task.id in completed:
            changes[task.id] = TaskChange.RAN_AGAIN if was_done else TaskChange.RAN
        elif former is not None and former.output == task.output:
            changes[task.id] = TaskChange.KEPT
        else:
            changes[task.id] = TaskChange.EDITED
    return changes

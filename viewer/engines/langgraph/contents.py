"""The contents of a LangGraph checkpoint, as pages and the terminal show them."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from viewer.engines.contents import Agent, Failure
from viewer.engines.langgraph import identifiers, super_steps
from viewer.engines.langgraph.channels import ChangedChannel, changed_channels, snapshot_in
from viewer.engines.langgraph.project_source import INPUT
from viewer.engines.langgraph.super_steps import mapping, sequence
from viewer.engines.langgraph.tables import CONTROL
from viewer.engines.langgraph.threads.rows import ENGINE, KIND, SOURCES, parents_in

# The newest known version of the layout of checkpoints.
NEWEST_VERSION = 4
_VALUES = "channel_values"
# The channel of an answer.
RESUMED = "__resume__"
# Where functions of the functional API store what they return, and what their next run begins with.
_RETURNED = {super_steps.RETURN: "returned", super_steps.END: "returned", super_steps.PREVIOUS: "previous"}


@dataclass(frozen=True, slots=True)
class Write:
    """A value that a task wrote to a channel."""

    channel: str
    value: Any

    @property
    def is_control(self) -> bool:
        """Whether the write only drives the graph."""
        return is_control(self.channel) and self.channel not in _RETURNED

    @property
    def name(self) -> str:
        """The name of the channel, or of what a function returned."""
        return _RETURNED.get(self.channel, self.channel)


@dataclass(frozen=True, slots=True)
class Interrupt:
    """A question that a task asks before it continues. ``id`` is empty in old stores."""

    id: str
    value: Any
    # The JSON schema of the answer, if the node gave one.
    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """A task after a checkpoint, with its writes. ``node`` is empty if the node is not known.

    ``answers`` are those that its interrupts got, as far as they are recorded. ``is_continued`` if the graph
    has gone on, although the rows of the task do not say so.
    """

    attempt: super_steps.Attempt
    node: str
    writes: tuple[Write, ...] = ()
    interrupts: tuple[Interrupt, ...] = ()
    answers: tuple[Any, ...] = ()
    error: str = ""
    is_continued: bool = False

    @property
    def id(self) -> str:
        return self.attempt.task_id

    @property
    def status(self) -> str:
        return "done" if self.is_continued else self.attempt.status

    @property
    def questions(self) -> tuple[Interrupt, ...]:
        """The interrupts that nobody has answered."""
        return self.interrupts if self.status == "waiting" else ()


@dataclass(frozen=True, slots=True)
class Contents:
    """A decoded checkpoint with its metadata and writes."""

    body: Mapping[str, Any] = field(repr=False)
    engine: str = ENGINE
    inputs: Mapping[str, Any] = field(default_factory=dict)
    agents: tuple[Agent, ...] = ()
    events: tuple[Any, ...] = ()
    checkpoint_events: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    engine_version: str = ""
    name: str = ""
    # Read by the template of the overview. Only CrewAI's checkpoints have entities.
    entities: tuple[Any, ...] = ()

    @property
    def kind(self) -> str:
        return KIND if mapping(self.body.get("checkpoint")) and self.id else "unknown"

    @property
    def id(self) -> str:
        return _text(self.body.get("checkpoint_id"))

    @property
    def thread_id(self) -> str:
        return _text(self.body.get("thread_id"))

    @property
    def namespace(self) -> str:
        return _text(self.body.get("checkpoint_ns"))

    @property
    def parent_id(self) -> str:
        return _text(self.body.get("parent_checkpoint_id"))

    @property
    def checkpoint(self) -> Mapping[str, Any]:
        return mapping(self.body.get("checkpoint"))

    @property
    def metadata(self) -> Mapping[str, Any]:
        return {} if "metadata" in self.unreadable else mapping(self.body.get("metadata"))

    @property
    def parents(self) -> Mapping[str, Any]:
        """The ids of the checkpoints of outer namespaces, by namespace."""
        return parents_in(self.metadata)

    @property
    def source(self) -> str:
        source = _text(self.metadata.get("source"))
        return source if source in SOURCES else ""

    @property
    def step(self) -> int | None:
        step = self.metadata.get("step")
        return step if isinstance(step, int) else None

    @property
    def format_version(self) -> int:
        version = self.checkpoint.get("v")
        return version if isinstance(version, int) else 0

    @property
    def is_of_newer_version(self) -> bool:
        return self.format_version > NEWEST_VERSION

    @property
    def opaque(self) -> Mapping[str, Any] | None:
        """The placeholder of a checkpoint that is pickled or encrypted; None if it is decoded."""
        return self.unreadable.get("state")

    @property
    def unreadable(self) -> Mapping[str, Any]:
        """The placeholders of the whole state and of the metadata, if they cannot be decoded."""
        stored = {"state": self.body.get("checkpoint"), "metadata": self.body.get("metadata")}
        return {name: value for name, value in stored.items() if super_steps.is_opaque(value)}

    @property
    def channels(self) -> dict[str, Any]:
        """The values of the graph's state by channel, as stored or as rebuilt from changes."""
        values = mapping(self.checkpoint.get(_VALUES))
        if self.is_functional:
            return _values_of_function(values)
        rebuilt = {name: one.value for name, one in self.changed_channels.items() if one.how}
        stored = {name: snapshot_in(value) for name, value in values.items() if value != name}
        return {name: value for name, value in (stored | rebuilt).items() if not is_control(name)}

    @property
    def given_input(self) -> Any:
        """The input that the run was started with; None if this is not its first checkpoint."""
        return mapping(self.checkpoint.get(_VALUES)).get(super_steps.START)

    @property
    def is_functional(self) -> bool:
        """Whether it is of a function of the functional API, which has values but no state."""
        values = mapping(self.checkpoint.get(_VALUES))
        if super_steps.START not in values or set(values) - {super_steps.START, *_RETURNED}:
            return super_steps.is_functional(self.checkpoint)
        # A graph's own task that reads the input neither asks nor has another name.
        return super_steps.is_functional(self.checkpoint) or any(
            task.interrupts or task.node not in ("", super_steps.START) for task in self.tasks
        )

    @property
    def changed_channels(self) -> dict[str, ChangedChannel]:
        """The channels of which the checkpoint stores only changes, with what is known of their values."""
        return changed_channels(self.body)

    @property
    def control_channels(self) -> dict[str, Any]:
        """The values of the channels that only drive the graph."""
        own = {} if self.is_functional else self.channels
        values = mapping(self.checkpoint.get(_VALUES))
        return {name: value for name, value in values.items() if name not in own}

    @property
    def next_nodes(self) -> list[str]:
        """The nodes that run next, as far as the channels show, without the nodes that have finished."""
        done = frozenset({0})
        return self._open_nodes(
            [
                (replace(task.attempt, indexes=done) if task.is_continued else task.attempt, task.node)
                for task in self.tasks
            ]
        )

    @property
    def triggered_nodes(self) -> list[str]:
        """The nodes that run after the checkpoint, also those that have finished."""
        return self._open_nodes(
            [(replace(task.attempt, indexes=frozenset()), task.node) for task in self.tasks]
        )

    def _open_nodes(self, named: Sequence[tuple[super_steps.Attempt, str]]) -> list[str]:
        return super_steps.open_nodes(
            named, super_steps.Place.after(self.namespace, self.id, self.step), self.checkpoint
        )

    @property
    def failure(self) -> Failure | None:
        """The failure of the first failed task after the checkpoint; None if none failed."""
        failed = (Failure(task.node, task.error) for task in self.tasks if task.status == "failed")
        return next(failed, None)

    @property
    def is_waited_for(self) -> bool:
        """Whether a task waits or has failed, so that the graph that called this one waits for it."""
        return any(task.status in ("waiting", "failed") for task in self.tasks)

    @property
    def tasks(self) -> list[Task]:
        """The tasks after this checkpoint that have written anything."""
        return tasks_in(self.body)

    @property
    def given(self) -> list[Write]:
        """What a command brought: the state that it changed, and its answer if no task has received it."""
        tasks = tasks_in(self.body)
        brought = [Write(_text(one.get("channel")), one.get("value")) for one in _brought(self.body)]
        received = {_identity(answer) for task in tasks for answer in task.answers}
        return [one for one in brought if one.channel != RESUMED or _identity(one.value) not in received]


def contents_of(body: Mapping[str, Any]) -> Contents:
    """The contents of a decoded checkpoint. Raises nothing, whatever it holds."""
    return Contents(body)


def kickoff_inputs(contents: Contents, kind: str = "") -> Mapping[str, Any]:
    """The input that a run was started with, from its first checkpoint.

    An input that is not an object is the value of the field ``INPUT``.
    """
    given = contents.given_input
    return mapping(given) if given is None or isinstance(given, dict) else {INPUT: given}


def is_control(channel: str) -> bool:
    """Whether a channel only drives the graph."""
    return channel.startswith(CONTROL)


def tasks_in(body: Mapping[str, Any]) -> list[Task]:
    """The tasks of a checkpoint's writes: waiting, failed, scheduled and finished ones, in this order."""
    grouped: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for write in _writes(body):
        grouped[_text(write.get("task_id"))].append(write)
    found = super_steps.attempts_in(
        (task_id, _text(write.get("task_path")), write["index"])
        for task_id, writes in grouped.items()
        for write in writes
    )
    attempts = [one for one in found if not one.is_late]
    names = mapping(body.get("task_names"))
    known = super_steps.hints(grouped) | {name: _text(node) for name, node in names.items()}
    named = super_steps.named_attempts(attempts, mapping(body.get("checkpoint")), known)
    tasks = [_task(attempt, node, grouped[attempt.task_id]) for attempt, node in named]
    if body.get("is_continued"):
        late = {own_id[8:]: writes for own_id, writes in grouped.items() if identifiers.is_late(own_id)}
        tasks = [_continued(task, late) if task.status == "waiting" else task for task in tasks]
    tasks = _with_answer(tasks, _brought(body))
    order = ("waiting", "failed", "scheduled", "done")
    return sorted(tasks, key=lambda task: (order.index(task.status), task.node, task.id))


def _writes(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        write
        for write in sequence(body.get("writes"))
        if isinstance(write, dict) and isinstance(write.get("index"), int)
    ]


def _brought(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The writes that a command brought, which belong to no task."""
    return [write for write in _writes(body) if write.get("task_id") == identifiers.NULL_TASK]


def _with_answer(tasks: list[Task], brought: Sequence[Mapping[str, Any]]) -> list[Task]:
    """The tasks, with the last answer that was given. Only its task's last interrupt can have received it.

    A task that asks several questions stores the earlier answers itself. The last one is only there as what
    the command brought.
    """
    asked = [task for task in tasks if task.interrupts and task.status == "done"]
    if len(asked) != 1:
        return tasks
    received = {_identity(answer) for task in tasks for answer in task.answers}
    given = {
        _identity(write.get("value")): write.get("value")
        for write in brought
        if write["index"] == super_steps.RESUME
    }
    added = [answer for identity, answer in given.items() if identity not in received]
    answered = replace(asked[0], answers=(*asked[0].answers, *added))
    return [answered if task is asked[0] else task for task in tasks]


def _identity(value: Any) -> str:
    """A text that is the same for equal values. Thousands of them are found faster than the values."""
    return json.dumps(value, sort_keys=True)


def _task(attempt: super_steps.Attempt, node: str, writes: Sequence[Mapping[str, Any]]) -> Task:
    values = [
        Write(_text(write.get("channel")), write.get("value")) for write in writes if write["index"] >= 0
    ]
    error = next((write.get("value") for write in writes if write["index"] == super_steps.ERROR), "")
    return Task(
        attempt=attempt,
        node=node,
        writes=tuple(values),
        interrupts=tuple(
            Interrupt(_text(one.get("id")), one.get("value"), mapping(one.get("response_schema")) or None)
            for write in writes
            if write["index"] == super_steps.INTERRUPT
            for one in super_steps.interrupt_fields(write.get("value"))
        ),
        # A task stores the answers to all of its interrupts as one list.
        answers=tuple(
            answer
            for write in writes
            if write["index"] == super_steps.RESUME
            for answer in (write["value"] if isinstance(write.get("value"), list) else [write.get("value")])
        ),
        error=error if isinstance(error, str) else str(error),
    )


def _continued(task: Task, late: Mapping[str, Sequence[Mapping[str, Any]]]) -> Task:
    """A task that was answered, with what it then wrote, as far as that is stored.

    With ``durability="exit"``, only changes of channels are, under an id that differs in its first part.
    """
    writes = [Write(_text(one.get("channel")), one.get("value")) for one in late.get(task.id[8:], ())]
    return replace(task, writes=tuple(writes), is_continued=True)


def _values_of_function(values: Mapping[str, Any]) -> dict[str, Any]:
    """The input, the returned value and ``previous`` of a function.

    Beside a new input, there is still what the last run returned.
    """
    found = {
        "input": super_steps.START,
        "returned": super_steps.END if super_steps.START not in values else "",
        "previous": super_steps.PREVIOUS,
    }
    return {name: values[channel] for name, channel in found.items() if channel in values}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""

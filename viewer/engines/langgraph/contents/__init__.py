"""The contents of a LangGraph checkpoint, as pages and the terminal show them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from viewer.engines.contents import Agent, Failure
from viewer.engines.langgraph.contents.changes import ChangedChannel, changed_channels, snapshot_in
from viewer.engines.langgraph.format import super_steps
from viewer.engines.langgraph.format.naming import hints, interrupt_fields, named_attempts
from viewer.engines.langgraph.format.super_steps import Attempt, attempts_in, is_opaque, mapping, sequence
from viewer.engines.langgraph.threads.rows import ENGINE, KIND, SOURCES, parents_in

# The newest known version of the layout of checkpoints.
NEWEST_VERSION = 4
# The prefixes of channels that drive the graph and are not part of its state.
_CONTROL = ("__", "branch:", "join:", "start:")
_VALUES = "channel_values"


@dataclass(frozen=True, slots=True)
class Write:
    """A value that a task wrote to a channel."""

    channel: str
    value: Any

    @property
    def is_control(self) -> bool:
        """Whether the write only drives the graph."""
        return is_control(self.channel)


@dataclass(frozen=True, slots=True)
class Interrupt:
    """A question that a task asks before it continues. ``id`` is empty in old stores."""

    id: str
    value: Any


@dataclass(frozen=True, slots=True)
class Task:
    """A task after a checkpoint, with its writes. ``node`` is empty if the node is not known."""

    id: str
    node: str
    status: str
    writes: tuple[Write, ...] = ()
    interrupts: tuple[Interrupt, ...] = ()
    answers: tuple[Any, ...] = ()
    error: str = ""


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
        return {name: value for name, value in stored.items() if is_opaque(value)}

    @property
    def channels(self) -> dict[str, Any]:
        """The values of the graph's state by channel, as stored or as rebuilt from changes."""
        values = mapping(self.checkpoint.get(_VALUES))
        rebuilt = {name: one.value for name, one in self.changed_channels.items() if one.how}
        stored = {name: snapshot_in(value) for name, value in values.items() if value != name}
        return {name: value for name, value in (stored | rebuilt).items() if not is_control(name)}

    @property
    def changed_channels(self) -> dict[str, ChangedChannel]:
        """The channels of which the checkpoint stores only changes, with what is known of their values."""
        return changed_channels(self.body)

    @property
    def control_channels(self) -> dict[str, Any]:
        """The values of the channels that only drive the graph."""
        own = self.channels
        values = mapping(self.checkpoint.get(_VALUES))
        return {name: value for name, value in values.items() if name not in own}

    @property
    def next_nodes(self) -> list[str]:
        """The nodes that run next, as far as the channels show, without the nodes that have finished."""
        finished = [task.node for task in self.tasks if task.status == "done"]
        following = super_steps.next_nodes(self.checkpoint)
        for node in finished:
            if node in following:
                following.remove(node)
        return following

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


def contents_of(body: Mapping[str, Any]) -> Contents:
    """The contents of a decoded checkpoint. Raises nothing, whatever it holds."""
    return Contents(body)


def is_control(channel: str) -> bool:
    """Whether a channel only drives the graph."""
    return channel.startswith(_CONTROL)


def tasks_in(body: Mapping[str, Any]) -> list[Task]:
    """The tasks of a checkpoint's writes: waiting, failed, scheduled and finished ones, in this order."""
    grouped: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for write in sequence(body.get("writes")):
        if isinstance(write, dict) and isinstance(write.get("index"), int):
            grouped[_text(write.get("task_id"))].append(write)
    attempts = attempts_in(
        (task_id, _text(write.get("task_path")), write["index"])
        for task_id, writes in grouped.items()
        for write in writes
    )
    named = named_attempts(attempts, mapping(body.get("checkpoint")), hints(grouped))
    tasks = [_task(attempt, node, grouped[attempt.task_id]) for attempt, node in named]
    order = ("waiting", "failed", "scheduled", "done")
    return sorted(tasks, key=lambda task: (order.index(task.status), task.node, task.id))


def _task(attempt: Attempt, node: str, writes: Sequence[Mapping[str, Any]]) -> Task:
    values = [
        Write(_text(write.get("channel")), write.get("value")) for write in writes if write["index"] >= 0
    ]
    error = next((write.get("value") for write in writes if write["index"] == super_steps.ERROR), "")
    return Task(
        id=attempt.task_id,
        node=node,
        status=attempt.status,
        writes=tuple(values),
        interrupts=tuple(
            Interrupt(_text(one.get("id")), one.get("value"))
            for write in writes
            if write["index"] == super_steps.INTERRUPT
            for one in interrupt_fields(write.get("value"))
        ),
        answers=tuple(write.get("value") for write in writes if write["index"] == super_steps.RESUME),
        error=error if isinstance(error, str) else str(error),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""

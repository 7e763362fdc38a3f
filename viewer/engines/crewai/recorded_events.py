"""CrewAI's events: those that a checkpoint recorded, and those at which it can write one."""

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from viewer.engines.entry_points import EventGroup, GroupTraits, parsed_module, texts_in_node
from viewer.messages.catalog import gettext_noop as _
from viewer.stores.protocol import NO_CALL, ModelCall, call_of
from viewer.validation import content_at

# Convert hostile values to the expected type, or to an empty value of it. Nothing here raises.


def text(value: Any) -> str:
    """Return the value if it is a text, else an empty text."""
    return value if isinstance(value, str) else ""


def listed(value: Any) -> list[Any]:
    """Return the value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def mapping(value: Any) -> dict[str, Any]:
    """Return the value if it is a dictionary, else an empty one."""
    return value if isinstance(value, dict) else {}


def whole(value: Any) -> int:
    """Return the value if it is an integer of at least 0, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def moment(value: Any) -> datetime | None:
    """Return an ISO time in UTC; None for any other value. A time without a time zone is taken as UTC."""
    try:
        at = datetime.fromisoformat(text(value))
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def arguments_in(value: Any) -> Any:
    """Return the arguments of a tool call; the text that the model wrote if it is no JSON object."""
    if not isinstance(value, str):
        return value
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return found if isinstance(found, dict) else value


# The events that a checkpoint records, oldest first.


# Internal events of the engine, which are not about the run.
INTERNAL_KINDS = frozenset(
    {"checkpoint_started", "checkpoint_completed", "default_env", "flow_created", "agent_logs_started"}
    | {"agent_logs_execution", "flow_plot", "llm_stream_chunk"}
)
EXECUTOR_FLOW = "AgentExecutor"
# A state that a flow with ``@persist`` stored, which CrewAI does not call a checkpoint.
STATE = "flow_state"
# The trigger of such a state if the flow waits for the feedback of a person.
WAITING = "feedback_pending"
# The suffixes of events that are failures.
FAILED = ("_failed", "_error")


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message of a conversation with a model."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Event:
    """One event. ``subject`` is the short name of a task, method, tool or model.

    ``text`` is the answer, output or error of the event. ``messages`` are the messages sent to a model, and
    ``tokens`` the tokens of this call. ``is_internal`` is true for the engine's own steps.
    """

    id: str
    kind: str
    at: datetime | None
    sequence: int
    task_id: str
    agent: str
    subject: str
    flow: str
    tokens: int
    text: str
    inputs: dict[str, Any] = field(repr=False)
    messages: tuple[ChatMessage, ...] = field(repr=False)
    is_internal: bool
    # The model that was called, if any.
    model: str = ""
    # The ids of the events that caused and started this one, and the model call with its tokens.
    parent: str = ""
    started: str = ""
    call: ModelCall = NO_CALL
    # Whether a guardrail refused an output.
    is_refusal: bool = False
    # The arguments of a tool: a mapping, or the text that the model wrote.
    arguments: Any = field(default="", repr=False)
    # The event as it is recorded.
    recorded: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def is_failure(self) -> bool:
        return self.kind.endswith(FAILED)

    @property
    def model_call(self) -> str:
        """The id of the model call that the event began or ended; empty if it did neither."""
        if not self.kind.startswith("llm_call_"):
            return ""
        return self.id if self.is_start else self.started

    @property
    def is_start(self) -> bool:
        return self.kind.endswith("_started")


def events_of(body: Mapping[str, Any]) -> tuple[Event, ...]:
    """All events of a decoded checkpoint, oldest first."""
    nodes = mapping(mapping(body.get("event_record")).get("nodes"))
    found = {str(key): mapping(mapping(node).get("event")) for key, node in nodes.items()}
    events = [
        _event(key, event, found.get(text(event.get("parent_event_id")), {})) for key, event in found.items()
    ]
    return tuple(
        sorted(events, key=lambda event: (event.at.timestamp() if event.at else 0.0, event.sequence))
    )


def _event(key: str, event: Mapping[str, Any], parent: Mapping[str, Any]) -> Event:
    kind, flow = text(event.get("type")), text(event.get("flow_name"))
    return Event(
        id=text(event.get("event_id")) or key,
        kind=kind,
        at=moment(event.get("timestamp")),
        sequence=whole(event.get("emission_sequence")),
        task_id=text(event.get("task_id")),
        agent=(text(event.get("agent_role")) or text(mapping(event.get("agent")).get("role"))).strip(),
        # In a restored record, an agent's events lack the task. The parent event has its name.
        subject=_subject(event) or _subject(parent),
        flow=flow,
        tokens=whole(mapping(event.get("usage")).get("total_tokens")),
        text=_outcome(event),
        inputs=mapping(event.get("inputs")),
        messages=tuple(_messages(event.get("messages"))),
        is_internal=kind in INTERNAL_KINDS or flow == EXECUTOR_FLOW,
        model=text(event.get("model")),
        parent=text(event.get("parent_event_id")),
        started=text(event.get("started_event_id")),
        call=call_of(mapping(event.get("usage")), text(event.get("model"))),
        is_refusal=kind == "llm_guardrail_completed" and event.get("success") is False,
        arguments=mapping(event.get("tool_args")) or text(event.get("tool_args")),
        recorded=event,
    )


def _subject(event: Mapping[str, Any]) -> str:
    for key in ("tool_name", "method_name", "task_name", "model", "crew_name", "flow_name"):
        if found := text(event.get(key)):
            return found
    return text(mapping(event.get("task")).get("description"))


def _outcome(event: Mapping[str, Any]) -> str:
    """Return the answer, output or error of an event as text; empty if it has none."""
    for key in ("error", "response", "output", "result", "chunk", "tool_args"):
        value = mapping(event.get(key))
        found = text(event.get(key)) or text(value.get("raw")) or text(value.get("content"))
        if found:
            return found
    return ""


def _messages(value: Any) -> list[ChatMessage]:
    if text(value):
        return [ChatMessage("user", text(value))]
    return [_message(item) for item in listed(value) if isinstance(item, dict)]


def _message(item: Mapping[str, Any]) -> ChatMessage:
    content = item.get("content")
    # Content is a text, or a list of parts, some of which are texts.
    parts = [text(mapping(part).get("text")) for part in listed(content)]
    return ChatMessage(text(item.get("role")), text(content) or "\n".join(part for part in parts if part))


# The events at which an installed CrewAI can write a checkpoint, found by reading its source.


MAX_BYTES = 512 * 1024
CONFIG = Path("state/checkpoint_config.py")
TYPES = Path("events/types")
# The name of the engine's list of these events.
LIST = "CheckpointEventType"


# The events of every version with checkpoints, used if the source cannot be read.
USUAL = (
    EventGroup("task", ("task_started", "task_completed", "task_failed")),
    EventGroup("crew", ("crew_kickoff_started", "crew_kickoff_completed", "crew_kickoff_failed")),
    EventGroup(
        "agent",
        (
            "agent_execution_started",
            "agent_execution_completed",
            "agent_execution_error",
            "lite_agent_execution_started",
            "lite_agent_execution_completed",
            "lite_agent_execution_error",
        ),
    ),
    EventGroup(
        "flow",
        (
            "flow_started",
            "flow_finished",
            "method_execution_started",
            "method_execution_finished",
            "method_execution_failed",
        ),
    ),
)


_SILENT = _(
    "CrewAI 1.14 and 1.15 define these events, but write no checkpoints at them: only at events of the crew, "
    "a task, an agent or the flow itself."
)
# Frequent events occur with each task, call or piece of text.
GROUPS = {
    "task": GroupTraits(_("Tasks")),
    "crew": GroupTraits(_("Crew")),
    "agent": GroupTraits(_("Agents"), is_frequent=True),
    "flow": GroupTraits(_("Flow and its methods")),
    "llm": GroupTraits(_("Models"), is_frequent=True, hint=_SILENT),
    "llm_guardrail": GroupTraits(_("Guardrails")),
    "tool_usage": GroupTraits(_("Tools"), is_frequent=True, hint=_SILENT),
    "memory": GroupTraits(_("Memory"), is_frequent=True),
    "knowledge": GroupTraits(_("Knowledge"), is_frequent=True),
    "reasoning": GroupTraits(_("Planning of agents")),
    "mcp": GroupTraits(_("Tools over MCP"), is_frequent=True, hint=_SILENT),
    "observation": GroupTraits(_("Steps of agents"), is_frequent=True),
    "skill": GroupTraits(_("Skills")),
    "logging": GroupTraits(_("Agent logs"), is_frequent=True),
    "a2a": GroupTraits(_("Remote agents (A2A)"), is_frequent=True),
    "system": GroupTraits(_("Signals to the program")),
    "env": GroupTraits(_("Environment"), hint=_SILENT),
}


def checkpoint_events(interpreter: Path | None) -> tuple[EventGroup, ...]:
    """Return the events of the CrewAI in this environment, in groups; ``USUAL`` if they cannot be read."""
    if interpreter is None:
        return USUAL
    # A link is not resolved, since the interpreter that it points to is outside the environment.
    environment = interpreter.parent.parent
    windows = environment / "Lib" / "site-packages" / "crewai"
    for engine in (*environment.glob("lib/python3*/site-packages/crewai"), windows):
        try:
            changed = (engine / CONFIG).stat().st_mtime_ns
        except OSError:
            continue
        return _read(engine, changed) or USUAL
    return USUAL


@lru_cache(maxsize=16)
def _read(engine: Path, changed: int) -> tuple[EventGroup, ...]:
    """Return the groups of an installed engine. ``changed`` is its modification time, a key of the cache."""
    names = _listed(_tree(engine / CONFIG))
    groups_by_event = _groups_by_event(engine)
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(groups_by_event.get(name) or _group_by_name(name, groups_by_event), []).append(name)
    return tuple(EventGroup(name, tuple(events)) for name, events in groups.items())


def _listed(tree: ast.Module) -> list[str]:
    """The texts of the assignment to ``LIST``."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(getattr(one, "id", "") == LIST for one in node.targets):
            return list(dict.fromkeys(texts_in_node(node.value)))
    return []


def _groups_by_event(engine: Path) -> dict[str, str]:
    """Return the group of each event, which is named after the module of the event's class."""
    found: dict[str, str] = {}
    for path in sorted((engine / TYPES).glob("*_events.py")):
        group = path.stem.removesuffix("_events")
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "type":
                found.update((name, group) for name in texts_in_node(node.annotation))
    return found


def _group_by_name(name: str, groups_by_event: dict[str, str]) -> str:
    """Return the group of an event without a class: the longest group that begins its name, or ``other``."""
    named = [group for group in set(groups_by_event.values()) if name.startswith(f"{group}_")]
    return max(named, key=len, default="other")


def _tree(path: Path) -> ast.Module:
    return parsed_module(content_at(path, MAX_BYTES, follows_links=True) or b"") or ast.Module([], [])

"""The events that a checkpoint records, oldest first."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from viewer.stores.model_calls import NO_CALL, ModelCall, call_of

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


# The events that a checkpoint records, oldest first.


# Internal events of the engine, which are not about the run.
INTERNAL_KINDS = frozenset(
    {"checkpoint_started", "checkpoint_completed", "default_env", "flow_created", "agent_logs_started"}
    | {"agent_logs_execution", "flow_plot", "llm_stream_chunk"}
)
EXECUTOR_FLOW = "AgentExecutor"
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

    @property
    def is_failure(self) -> bool:
        return self.kind.endswith(FAILED)

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

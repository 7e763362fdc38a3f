"""The values of channels that a checkpoint stores as changes, and those that are conversations."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from viewer.engines.langgraph.super_steps import fields_of, mapping, sequence

# LangChain's messages in the channels of a checkpoint, as a conversation.


# The most characters of a call's arguments that a page shows.
MAX_ARGUMENTS = 2_000
_TYPES = (
    *("HumanMessage", "AIMessage", "SystemMessage", "ToolMessage", "FunctionMessage", "ChatMessage"),
    *("AIMessageChunk", "HumanMessageChunk", "RemoveMessage", "BaseMessage"),
)
_ROLES = {
    "human": "user",
    "user": "user",
    "ai": "assistant",
    "assistant": "assistant",
    "AIMessageChunk": "assistant",
}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call that a model requests."""

    id: str
    name: str
    # As JSON, which may be cut.
    arguments: str
    values: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message. ``tokens`` is None if it is not recorded; ``others`` are parts that are not text."""

    id: str
    role: str
    name: str
    text: str
    others: tuple[Any, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    answers_call: str = ""
    is_error: bool = False
    tokens: int | None = None
    # The model that wrote the message; empty if it is not recorded.
    model: str = ""


def messages_in(value: Any) -> list[ChatMessage]:
    """The messages of a channel's value; empty if it contains anything else."""
    found = [message_of(one) for one in sequence(value)]
    messages = [one for one in found if one is not None]
    return messages if messages and len(messages) == len(found) else []


def message_of(value: Any) -> ChatMessage | None:
    """The message that a decoded value represents; None for any other value."""
    fields = mapping(fields_of(value, *_TYPES))
    if not fields and isinstance(value, dict) and "role" in value and "content" in value:
        fields = {**value, "type": value["role"]}
    if not fields or ("content" not in fields and "type" not in fields):
        return None
    text, others = _content(fields.get("content"))
    kind = str(fields.get("type") or "")
    return ChatMessage(
        id=str(fields.get("id") or ""),
        role=_ROLES.get(kind, kind or "message"),
        name=str(fields.get("name") or ""),
        text=text,
        others=others,
        calls=tuple(_call(one) for one in sequence(fields.get("tool_calls")) if isinstance(one, dict)),
        answers_call=str(fields.get("tool_call_id") or ""),
        is_error=fields.get("status") == "error",
        tokens=_tokens(fields),
        model=_model(fields),
    )


def _content(content: Any) -> tuple[str, tuple[Any, ...]]:
    """The text of a message's content, and its parts that are not text."""
    if isinstance(content, str):
        return content, ()
    texts, others = [], []
    for part in sequence(content):
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        else:
            others.append(part)
    return "\n".join(texts), tuple(others)


def _call(call: Mapping[str, Any]) -> ToolCall:
    arguments = json.dumps(call.get("args"), ensure_ascii=False)
    return ToolCall(
        str(call.get("id") or ""), str(call.get("name") or ""), arguments[:MAX_ARGUMENTS], call.get("args")
    )


def _model(fields: Mapping[str, Any]) -> str:
    name = mapping(fields.get("response_metadata")).get("model_name")
    return name if isinstance(name, str) else ""


def _tokens(fields: Mapping[str, Any]) -> int | None:
    total = mapping(fields.get("usage_metadata")).get("total_tokens")
    return total if isinstance(total, int) and not isinstance(total, bool) else None


# Rebuilds the values of channels of which a checkpoint stores only changes, without the graph's reducer.
#
# The reducer is code of the graph and is not run. LangGraph's own reducer of messages is known: a message
# replaces or removes the stored message with its id. A reducer of lists is assumed to append. Any other value
# stays unknown, and only its last known value and the writes since then are shown.


How = Literal["messages", "list", ""]
_OVERWRITE = "__overwrite__"


@dataclass(frozen=True, slots=True)
class ChangedChannel:
    """A channel between two snapshots.

    ``how`` names the reducer that ``value`` was rebuilt with; it is empty if the value is unknown. ``writes``
    are the writes since the last known value ``base``, oldest first.
    """

    how: How
    value: Any
    base: Any
    writes: Sequence[Any]
    # Whether the base and all writes since then are known.
    is_whole: bool


def changed_channels(body: Mapping[str, Any]) -> dict[str, ChangedChannel]:
    """The channels of which a decoded checkpoint stores only changes, by name."""
    return {
        name: _rebuilt(found)
        for name, found in mapping(body.get("changes")).items()
        if isinstance(found, dict) and isinstance(name, str)
    }


def snapshot_in(value: Any) -> Any:
    """The value in a snapshot of a channel; any other value unchanged."""
    return value["fields"] if _is_snapshot(value) else value


def _is_snapshot(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and set(value) == {"__type__", "fields"}
        and value["__type__"] == "DeltaSnapshot"
    )


def _rebuilt(found: Mapping[str, Any]) -> ChangedChannel:
    base, writes = snapshot_in(found.get("base")), list(sequence(found.get("writes")))
    is_whole = found.get("is_whole") is True
    for position in range(len(writes) - 1, -1, -1):
        replaces, value = _overwritten(writes[position])
        if replaces:
            base, writes, is_whole = value, writes[position + 1 :], True
            break
    if not is_whole:
        return ChangedChannel("", None, base, tuple(writes), is_whole)
    how, rebuilt = _applied(base, writes)
    return ChangedChannel(how, rebuilt, base, tuple(writes), is_whole)


def _applied(base: Any, writes: Sequence[Any]) -> tuple[How, Any]:
    """The name of the reducer, and the base with the writes applied to it. Empty and None if unknown."""
    if base is not None and not isinstance(base, list):
        return "", None
    flat = [item for write in writes for item in (write if isinstance(write, list) else [write])]
    if (base or flat) and all(message_of(item) is not None for item in [*(base or ()), *flat]):
        return "messages", _with_messages(base or [], flat)
    if all(isinstance(write, list) for write in writes):
        return "list", [*(base or ()), *flat]
    return "", None


def _with_messages(base: Sequence[Any], added: Sequence[Any]) -> list[Any]:
    """The conversation after each message was added, or replaced or removed the message with its id."""
    result: list[Any] = list(base)
    positions = {one: position for position, item in enumerate(base) if (one := _id(item))}
    for item in added:
        own = _id(item)
        if _removes(item):
            if own in positions:
                result[positions.pop(own)] = None
        elif own in positions:
            result[positions[own]] = item
        else:
            if own:
                positions[own] = len(result)
            result.append(item)
    return [item for item in result if item is not None]


def _id(item: Any) -> str:
    message = message_of(item)
    return message.id if message else ""


def _removes(item: Any) -> bool:
    return fields_of(item, "RemoveMessage") is not None or mapping(item).get("role") == "remove"


def _overwritten(write: Any) -> tuple[bool, Any]:
    """Whether a write replaces the whole value, and the new value."""
    fields = mapping(fields_of(write, "Overwrite"))
    if "value" in fields:
        return True, fields["value"]
    own = mapping(write)
    if set(own) == {_OVERWRITE}:
        return True, own[_OVERWRITE]
    return (True, own["value"]) if own.get("type") == _OVERWRITE and "value" in own else (False, None)

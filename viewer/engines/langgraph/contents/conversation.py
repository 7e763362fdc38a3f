"""LangChain's messages in the channels of a checkpoint, as a conversation."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from viewer.engines.langgraph.format.super_steps import fields_of, mapping, sequence

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
    # As JSON.
    arguments: str


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
    return ToolCall(str(call.get("id") or ""), str(call.get("name") or ""), arguments[:MAX_ARGUMENTS])


def _model(fields: Mapping[str, Any]) -> str:
    name = mapping(fields.get("response_metadata")).get("model_name")
    return name if isinstance(name, str) else ""


def _tokens(fields: Mapping[str, Any]) -> int | None:
    total = mapping(fields.get("usage_metadata")).get("total_tokens")
    return total if isinstance(total, int) and not isinstance(total, bool) else None

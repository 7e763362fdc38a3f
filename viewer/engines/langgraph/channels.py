"""The values of channels: stored whole or as changes, conversations, and values of types that JSON lacks."""

import ipaddress
import json
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import Any, Literal

from viewer.engines.langgraph.super_steps import fields_of, mapping, sequence
from viewer.engines.plan import EditRefused

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
    return value[FIELDS] if is_typed(value) and value[TYPE] == "DeltaSnapshot" else value


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


# Values of Python's own types, as people write them: dates, durations, paths, patterns, UUIDs and others.
#
# A decoded value is ``{"__type__": "datetime.date", "fields": [2024, 1, 2]}``; its text is ``2024-01-02``. An
# edited text becomes the fields again. Values of other types, such as models, get their type from the value
# that they replace.


TYPE, FIELDS = "__type__", "fields"
_MESSAGES = "langchain_core.messages."
_WINDOWS = ("WindowsPath", "PureWindowsPath")
_FLAGS = {re.ASCII: "a", re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s", re.VERBOSE: "x"}
_INLINE = re.compile(r"\(\?([aimsx]+)\)")
_MICROSECONDS = {"days": 86_400_000_000, "hours": 3_600_000_000, "minutes": 60_000_000, "seconds": 1_000_000}
_DURATION = re.compile(
    r"\s*(?:(?P<days>[+-]?\d{1,9}) days?(?:, |\s*$))?"
    r"(?:(?P<hours>\d{1,9}):(?P<minutes>\d{1,2})(?::(?P<seconds>\d{1,2}(?:\.\d{1,6})?))?)?\s*",
    re.ASCII,
)


def text_of_typed(value: Any) -> str | None:
    """The text of a decoded value of one of Python's own types; None for any other value."""
    if not is_typed(value):
        return None
    codec = _codec_of(str(value[TYPE]))
    try:
        return codec[0](value[FIELDS], str(value[TYPE])) if codec else None
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError):
        return None


def is_typed(value: Any) -> bool:
    """Whether a decoded value names its class."""
    return isinstance(value, dict) and value.keys() == {TYPE, FIELDS} and isinstance(value[TYPE], str)


def as_written(value: Any) -> Any:
    """A decoded value in the form in which people edit it: with texts for values of Python's own types."""
    if (text := text_of_typed(value)) is not None:
        return text
    if isinstance(value, dict):
        return {name: as_written(item) for name, item in value.items()}
    return [as_written(item) for item in value] if isinstance(value, list) else value


def with_types(edited: Any, stored: Any, name: str) -> Any:
    """An edited value with the types of the stored value that it replaces. ``name`` is that of its channel.

    An item of a list gets the type of the stored items if all have the same. Raises EditRefused if the type
    is not clear, or if a text is not one of its type.
    """
    if edited is None or (isinstance(edited, dict) and TYPE in edited):
        return edited
    if isinstance(edited, list) and isinstance(stored, list):
        return _list_with_types(edited, stored, name)
    if not is_typed(stored):
        if not isinstance(edited, dict) or not isinstance(stored, dict):
            return edited
        return {key: with_types(item, stored.get(key), name) for key, item in edited.items()}
    if edited == as_written(stored):
        return stored
    title, fields = str(stored[TYPE]), stored[FIELDS]
    if codec := _codec_of(title):
        return {TYPE: title, FIELDS: _parsed(codec[1], edited, title, name)}
    if any(isinstance(fields, kind) != isinstance(edited, kind) for kind in (dict, list)):
        raise EditRefused("langgraph.type_not_clear", channel=name, type=title)
    return {TYPE: title, FIELDS: with_types(edited, fields, name)}


def _list_with_types(edited: list[Any], stored: list[Any], name: str) -> list[Any]:
    if any(is_typed(item) and item[TYPE].startswith(_MESSAGES) for item in stored):
        # A graph accepts messages in several forms.
        return edited
    types = {item[TYPE] if is_typed(item) else "" for item in stored}
    if types <= {""}:
        same = len(edited) == len(stored)
        return [
            with_types(item, stored[number], name) if same else item for number, item in enumerate(edited)
        ]
    written = [(as_written(item), item) for item in stored]
    found = []
    for item in edited:
        # A person may leave out the class of an item that stays as it is.
        equal = (one for text, one in written if item in (text, text[FIELDS] if is_typed(text) else text))
        known = next(equal, None)
        if known is None and len(types) > 1 and not is_typed(item):
            raise EditRefused("langgraph.type_not_clear", channel=name, type=", ".join(sorted(types - {""})))
        found.append(with_types(item, stored[0], name) if known is None else known)
    return found


def _parsed(parse: Callable[[Any, str], Any], edited: Any, title: str, name: str) -> Any:
    try:
        return parse(edited, title)
    except (TypeError, ValueError, ArithmeticError, AttributeError, RecursionError, re.error) as error:
        raise EditRefused("langgraph.text_not_of_type", channel=name, type=title) from error


def _codec_of(title: str) -> tuple[Callable[[Any, str], str], Callable[[Any, str], Any]] | None:
    """What makes a text of the fields of a type, and fields of a text; None for a type without texts."""
    module, _dot, _name = title.rpartition(".")
    if module.partition(".")[0] == "pathlib":
        return _path, _path_fields
    if module == "ipaddress":
        return _plain_text, _address
    return _CODECS.get(title)


def _plain_text(fields: Any, title: str) -> str:
    if not isinstance(fields, str):
        raise TypeError(title)
    return fields


def _moment_fields(text: Any, title: str) -> str:
    return datetime.fromisoformat(text).isoformat()


def _day(fields: Any, title: str) -> str:
    return date(*fields).isoformat()


def _day_fields(text: Any, title: str) -> list[int]:
    found = date.fromisoformat(text)
    return [found.year, found.month, found.day]


def _clock(fields: Any, title: str) -> str:
    zone = _zone(fields["tzinfo"]) if fields.get("tzinfo") is not None else None
    return time(**{**fields, "tzinfo": zone}).isoformat()


def _zone(value: Any) -> timezone:
    """The zone with a fixed difference. A time without a date has no other difference."""
    if value[TYPE] != "datetime.timezone":
        raise ValueError(value[TYPE])
    return timezone(timedelta(*value[FIELDS][0][FIELDS]))


def _clock_fields(text: Any, title: str) -> dict[str, Any]:
    found = time.fromisoformat(text)
    offset = found.utcoffset()
    zone = None
    if offset is not None:
        difference = {TYPE: "datetime.timedelta", FIELDS: [offset.days, offset.seconds, offset.microseconds]}
        zone = {TYPE: "datetime.timezone", FIELDS: [difference]}
    parts = {name: getattr(found, name) for name in ("hour", "minute", "second", "microsecond", "fold")}
    return {**parts, "tzinfo": zone}


def _duration(fields: Any, title: str) -> str:
    return str(timedelta(*fields))


def _duration_fields(text: Any, title: str) -> list[int]:
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groupdict().values()):
        raise ValueError(title)
    units = {unit: Decimal(number) for unit, number in match.groupdict().items() if number}
    microseconds = sum(int(number * _MICROSECONDS[unit]) for unit, number in units.items())
    found = timedelta(microseconds=microseconds)
    return [found.days, found.seconds, found.microseconds]


def _path(fields: Any, title: str) -> str:
    return str(_path_class(title)(*fields))


def _path_fields(text: Any, title: str) -> list[str]:
    return list(_path_class(title)(text).parts)


def _path_class(title: str) -> type[PurePath]:
    return PureWindowsPath if title.rpartition(".")[2] in _WINDOWS else PurePosixPath


def _pattern(fields: Any, title: str) -> str:
    """The pattern. Flags other than the usual one stand before it, as a pattern itself can have them."""
    text, flags = fields[0], fields[1] if len(fields) > 1 else 0
    letters = "".join(letter for flag, letter in _FLAGS.items() if flag & flags)
    return f"(?{letters}){text}" if letters else _plain_text(text, title)


def _pattern_fields(text: Any, title: str) -> list[Any]:
    pattern = re.compile(text)
    inline = _INLINE.match(text)
    return [text[inline.end() :] if inline else text, int(pattern.flags)]


def _uuid(fields: Any, title: str) -> str:
    return str(uuid.UUID(fields))


def _uuid_fields(text: Any, title: str) -> str:
    return uuid.UUID(text).hex


def _number(text: Any, title: str) -> str:
    return str(Decimal(str(text) if isinstance(text, int | float) else text))


def _address(text: Any, title: str) -> str:
    return str(getattr(ipaddress, title.rpartition(".")[2])(text))


_CODECS: Mapping[str, tuple[Callable[[Any, str], str], Callable[[Any, str], Any]]] = {
    "datetime.datetime": (_plain_text, _moment_fields),
    "datetime.date": (_day, _day_fields),
    "datetime.time": (_clock, _clock_fields),
    "datetime.timedelta": (_duration, _duration_fields),
    "re.compile": (_pattern, _pattern_fields),
    "uuid.UUID": (_uuid, _uuid_fields),
    "decimal.Decimal": (_plain_text, _number),
    "zoneinfo.ZoneInfo": (_plain_text, _plain_text),
}

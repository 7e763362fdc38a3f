"""Rebuilds the values of channels of which a checkpoint stores only changes, without the graph's reducer.

The reducer is code of the graph and is not run. LangGraph's own reducer of messages is known: a message
replaces or removes the stored message with its id. A reducer of lists is assumed to append. Any other value
stays unknown, and only its last known value and the writes since then are shown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from viewer.engines.langgraph.contents.conversation import message_of
from viewer.engines.langgraph.format.super_steps import fields_of, mapping, sequence

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

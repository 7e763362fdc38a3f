"""The model calls that a thread's messages record, and the duration of its super-steps."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from viewer.engines.langgraph.format import identifiers
from viewer.engines.langgraph.format.super_steps import ERROR, INTERRUPT, fields_of, mapping, sequence
from viewer.stores.model_calls import ModelCall, call_of

if TYPE_CHECKING:
    from viewer.engines.langgraph.threads.rows import IndexedRow

ANSWERS = ("AIMessage", "AIMessageChunk")
# The keys under which providers store the name of the model.
_MODEL = ("model_name", "model", "model_id")


def calls_in(checkpoint: Mapping[str, Any]) -> dict[str, ModelCall]:
    """The model calls that the messages of a decoded checkpoint record, by the message's id."""
    found: dict[str, ModelCall] = {}
    for channel, value in mapping(checkpoint.get("channel_values")).items():
        found.update(calls_of(value, channel))
    return found


def calls_of(value: Any, channel: str) -> Iterator[tuple[str, ModelCall]]:
    """The message id and call of each answer in a channel's value: a message, or a list of messages."""
    for number, one in enumerate([value] if isinstance(value, dict) else sequence(value)):
        fields = mapping(fields_of(one, *ANSWERS))
        if (call := call_in_message(fields)) is not None:
            yield str(fields.get("id") or f"{channel} {number}"), call


def call_in_message(fields: Mapping[str, Any]) -> ModelCall | None:
    """The model call that wrote a message; None if the message does not record its usage."""
    response = mapping(fields.get("response_metadata"))
    usage = mapping(fields.get("usage_metadata")) or mapping(response.get("token_usage"))
    if not usage:
        return None
    model = next((name for key in _MODEL if isinstance(name := response.get(key), str) and name), "")
    return call_of(usage, model)


def seconds_of(rows: Iterable["IndexedRow"]) -> float:
    """The seconds that the super-steps of these rows took, to a thousandth. The rows must be linked.

    Waits for the next turn, for an answer, for another attempt or for a fork are not counted.
    """
    return round(exact_seconds_of(rows), 3)


def exact_seconds_of(rows: Iterable["IndexedRow"]) -> float:
    """The same, not rounded, so that durations can be added."""
    seconds = 0.0
    for row in rows:
        before = row.parent
        if before is None or row.metadata.source != "loop" or before.children[0] is not row:
            continue
        start, end = (identifiers.created_at(one.checkpoint_id) for one in (before, row))
        has_stopped = any({ERROR, INTERRUPT} & attempt.indexes for attempt in before.attempts)
        if start and end and not has_stopped:
            seconds += max(0.0, (end - start).total_seconds())
    return seconds

"""Recorded calls of models and tools, what a person chooses for those of a run, and what repeats a job."""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pprint import pformat
from typing import Any, Literal

from viewer.engines.runner_protocol import RecordedAnswer
from viewer.messages.catalog import gettext_noop as _
from viewer.messages.message import UserFacingError
from viewer.stores.protocol import NO_CALL, ModelCall


@dataclass(frozen=True, slots=True)
class RequestedTool:
    """A tool call that a message requests. ``arguments`` is a mapping, or the text that the model wrote."""

    name: str
    arguments: Any
    id: str = ""


@dataclass(frozen=True, slots=True)
class CallMessage:
    """A message to or from a model. ``answers`` is the id of the tool call that it answers.

    ``other_parts`` counts the parts of its content that are not text.
    """

    role: str
    text: str
    name: str = ""
    tools: tuple[RequestedTool, ...] = ()
    answers: str = ""
    other_parts: int = 0


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that the model could call. ``schema`` is the JSON schema of its arguments, if it is recorded."""

    name: str
    description: str = ""
    schema: Any = None


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One model call.

    ``id`` is the engine's own, and the same in all checkpoints of a run. The first ``sent`` messages of
    ``conversation``, which calls may share, are those of the call; None for all. If ``is_conversation``, they
    are those of the state that precede the answer; the code may have sent others. ``parameters`` are those
    that were sent, and ``reported`` is what the model reported besides its usage. ``answer`` is None if none
    is recorded. ``start`` and ``end`` are None if they are not recorded. ``part`` is what a fork edits to use
    another answer, such as ``outputs:<unit>``; empty if a fork cannot. ``before_result`` is the text in an
    answer after which the output of its unit begins; None if answers are no outputs.
    """

    id: str
    model: str = ""
    conversation: Sequence[CallMessage] = field(default=(), repr=False)
    sent: int | None = None
    answer: CallMessage | None = None
    tools: tuple[OfferedTool, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    reported: Mapping[str, Any] = field(default_factory=dict)
    usage: ModelCall = NO_CALL
    agent: str = ""
    start: datetime | None = None
    end: datetime | None = None
    error: str = ""
    is_conversation: bool = False
    part: str = ""
    before_result: str | None = None

    @property
    def name(self) -> str:
        """The name of the call in an address and in the terminal."""
        return call_name(self.id)

    @property
    def messages(self) -> Sequence[CallMessage]:
        """The messages to the model, oldest first."""
        return self.conversation[: self.sent]

    @property
    def result(self) -> str:
        """The text of the answer as the output of its unit; empty if there is none."""
        return self.result_of(self.answer)

    def result_of(self, answer: CallMessage | None) -> str:
        """The text of another answer as the output of the unit; empty if there is none."""
        if answer is None or self.before_result is None:
            return ""
        return answer.text.rpartition(self.before_result)[2].strip()

    def can_use(self, answer: CallMessage) -> bool:
        """Whether a fork can use another answer instead."""
        if self.before_result is not None:
            return bool(self.result_of(answer))
        return all(isinstance(tool.arguments, Mapping) for tool in answer.tools)

    @property
    def seconds(self) -> float | None:
        """The duration in seconds; None if it is not recorded."""
        return max(0.0, (self.end - self.start).total_seconds()) if self.start and self.end else None


def call_document(call: RecordedCall, *, is_whole: bool = False) -> dict[str, Any]:
    """A call as plain values; with its messages, tools and parameters if ``is_whole``."""
    usage = call.usage
    document: dict[str, Any] = {
        "name": call.name,
        "id": call.id,
        "model": call.model or None,
        "agent": call.agent or None,
        "started_at": call.start.isoformat() if call.start else None,
        "seconds": call.seconds,
        "tokens": usage.tokens or None,
        "tokens_in": usage.tokens_in or None,
        "tokens_out": usage.tokens_out or None,
        "tokens_cached": usage.cached or None,
        "error": call.error or None,
        "answer": message_document(call.answer) if call.answer else None,
    }
    if is_whole:
        document |= {
            "is_conversation": call.is_conversation,
            "messages": [message_document(message) for message in call.messages],
            "tools": [
                {"name": tool.name, "description": tool.description, "schema": tool.schema}
                for tool in call.tools
            ],
            "parameters": dict(call.parameters),
            "reported": dict(call.reported),
        }
    return document


def message_document(message: CallMessage) -> dict[str, Any]:
    """A message as plain values."""
    document: dict[str, Any] = {"role": message.role, "text": message.text}
    if message.name:
        document["name"] = message.name
    if message.answers:
        document["answers"] = message.answers
    if message.tools:
        document["tools"] = [
            {"id": tool.id, "name": tool.name, "arguments": tool.arguments} for tool in message.tools
        ]
    return document


def answer_in(data: Mapping[str, Any]) -> CallMessage:
    """The answer that the event of a replay reports. The event may hold anything."""
    found = data.get("tools")
    tools = [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
    return CallMessage(
        "assistant",
        str(data.get("text") or ""),
        tools=tuple(
            RequestedTool(str(one.get("name") or ""), one.get("arguments"), str(one.get("id") or ""))
            for one in tools
        ),
    )


class ModelChoice(StrEnum):
    """What happens when a run calls a model. ``viewer/launching/labels.py`` has the labels."""

    CALL = "call"  # it is called
    RECORDED = "recorded"  # the recorded answer to the same messages, or the run stops
    IN_ORDER = "in-order"  # the recorded answer to the same messages, else the next one, or the run stops


@dataclass(frozen=True, slots=True)
class RecordedAnswers:
    """The answers of a run, oldest first. ``is_known`` is false if some of them could not be read."""

    answers: Sequence[RecordedAnswer] = ()
    is_known: bool = True


def recorded_answer(call: RecordedCall) -> RecordedAnswer | None:
    """The answer as runners read it; None if none is recorded."""
    if call.answer is None:
        return None
    messages = call.messages
    return RecordedAnswer(
        messages=_digest(call),
        sent=messages[-1].text if messages else "",
        model=call.model,
        text=call.answer.text,
        tools=[{"name": one.name, "arguments": one.arguments, "id": one.id} for one in call.answer.tools],
        id=call.id,
        # Code may have written the message: nothing is recorded that only a model reports.
        is_certain=not call.is_conversation or bool(call.model or call.usage.tokens or call.reported),
        is_in_order=True,
    )


def _digest(call: RecordedCall) -> str:
    """What is equal for calls with equal messages; empty if they have parts that are not text.

    Runners compute the same (``forkline_runner.recorded``). Of a conversation, prompts of the system are
    left out: the code may have added some that are not recorded.
    """
    messages = [one for one in call.messages if not (call.is_conversation and one.role == "system")]
    if any(one.other_parts for one in messages):
        return ""
    plain = [
        [one.role, one.text.strip(), [[tool.name, tool.arguments] for tool in one.tools]] for one in messages
    ]
    return hashlib.sha256(json.dumps(plain, sort_keys=True, default=str).encode()).hexdigest()


def call_name(call_id: str) -> str:
    """The name of the call with this id: the id may hold any characters, the name only letters and digits."""
    return hashlib.sha256(call_id.encode(errors="replace")).hexdigest()[:12]


# Recorded calls of tools, and what a person chooses for the tools of a run.


_SIGNS = re.compile(r"[\W_]+")


class ToolChoice(StrEnum):
    """What happens when a run calls a tool. ``viewer/launching/labels.py`` has the labels."""

    CALL = "call"  # it is called
    ASK = "ask"  # a person is asked each time, and may edit the arguments
    RECORDED = "recorded"  # it is answered with the recorded result, or a person is asked if there is none
    REFUSE = "refuse"  # it is not called, and the run continues with an error


@dataclass(frozen=True, slots=True)
class RecordedToolCall:
    """A call that a checkpoint records. ``unit`` is the id of the unit that made it.

    ``arguments`` are a mapping, or the text that the model wrote. ``result`` is None if none is recorded.
    """

    unit: str
    tool: str
    arguments: Any
    at: datetime | None
    result: str | None
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class RecordedTools:
    """The calls of the units that run, oldest first, and the tools that they may call without a record.

    ``is_known`` is false if the checkpoints that may record calls could not be read.
    """

    calls: Sequence[RecordedToolCall] = ()
    others: Sequence[str] = ()
    is_known: bool = True


def plain_name(tool: str) -> str:
    """What is equal for a tool's name and the name that events have, which the engine gives to models.

    A runner compares names in the same way (``forkline_runner.recorded``).
    """
    letters = (one for one in unicodedata.normalize("NFKD", tool) if not unicodedata.combining(one))
    return _SIGNS.sub("", "".join(letters).casefold())


# What a run spent its time on: units of work, and the model calls, tools and waits within them.


SpanKind = Literal["unit", "attempt", "retry", "model", "tool", "wait", "gap"]
SpanStatus = Literal["done", "failed", "open"]


@dataclass(frozen=True, slots=True)
class Failure:
    """When an attempt of a unit failed and why, and when the next attempt began."""

    failed_at: datetime
    retried_at: datetime
    error: str


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in which one thing went on.

    ``kind`` is ``unit`` for a unit of work, ``attempt`` for a failed attempt of one that was tried again,
    ``retry`` for the time until the next attempt, ``wait`` for a wait for a person, and ``gap`` for the time
    between a run and its resume, fork or next turn. ``parent`` is the id of the unit that the span belongs
    to. ``end`` is None if it has not been recorded. ``is_estimated`` is true if the times are those of the
    step that the span was part of. ``checkpoint`` is the id of the newest checkpoint before the span; if the
    engine does not know that, ``events_before`` is the number of events recorded before the span.
    ``unit_id`` names a unit in the events of jobs, if only these record its failed attempts. ``call_id`` is
    the id of the recorded model call. ``arguments`` of a tool are a mapping, or the text that the model
    wrote; None if they are not recorded.
    """

    id: str
    kind: SpanKind
    label: str
    start: datetime
    end: datetime | None = None
    parent: str = ""
    status: SpanStatus = "done"
    agent: str = ""
    call: ModelCall = NO_CALL
    prompt: tuple[CallMessage, ...] = field(default=(), repr=False)
    answer: str = field(default="", repr=False)
    error: str = field(default="", repr=False)
    is_estimated: bool = False
    checkpoint: str = ""
    events_before: int | None = None
    unit_id: str = ""
    call_id: str = ""
    arguments: Any = field(default=None, repr=False)

    @property
    def seconds(self) -> float:
        """The duration in seconds; 0 if the end is not recorded."""
        return max(0.0, (self.end - self.start).total_seconds()) if self.end else 0.0


RETRY = _("retry")


def failed_attempts(unit: Span, failures: Sequence[Failure], first: int = 1) -> Iterator[Span]:
    """The failed attempts of a unit, oldest first, each with the time until the next attempt.

    ``first`` is the number of the first one in the ids of the spans.
    """
    start = unit.start
    for number, failure in enumerate(failures, first):
        span_id, failed_at = f"{unit.id}-attempt-{number}", max(start, failure.failed_at)
        yield Span(
            span_id, "attempt", _("failed attempt"), start, failed_at, unit.id, "failed", error=failure.error
        )
        start = max(failed_at, failure.retried_at)
        yield Span(f"{span_id}-retry", "retry", RETRY, failed_at, start, unit.id)


@dataclass(frozen=True, slots=True)
class SpanSource:
    """A checkpoint of the branch whose spans are wanted, with its contents."""

    checkpoint_id: str
    created_at: datetime | None
    contents: Any


Sources = Sequence[SpanSource]


# A job, and the lines that the Python scripts of all engines share to repeat it.


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A job without its secrets. ``source`` is the checkpoint as the engine reads it; empty for a new run.

    ``outputs`` are texts or JSON values by unit, ``again`` the units that ran again, ``missing`` the names of
    values that are not stored, since they may be secrets. With ``starts_over``, a flow began again with its
    state.
    """

    kind: str
    entity: str
    folder: str
    entry_point: str
    location: str
    store_kind: str
    source: str = ""
    run_key: str = ""
    checkpoint_id: str = ""
    branch: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    again: tuple[str, ...] = ()
    starts_over: bool = False
    answers: Mapping[str, Any] = field(default_factory=dict)
    # Values of the run's config and context, by ``configurable`` and ``context``.
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    as_node: str = ""
    replace: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


class NotReproducible(UserFacingError):
    """A run that no test can repeat."""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """What a run was given, as its engine's runner reads it, and its values in the end, by name."""

    inputs: Any
    expected: Mapping[str, Any]


def literal(value: Any) -> str:
    """The value as Python source on one or several lines."""
    return pformat(value, width=96, sort_dicts=False)


def heading(what: Reproduction, title: str) -> list[str]:
    """The first lines of a script: what it does, what is missing, and the import path of the project."""
    lines = [f'"""{title}"""', ""]
    if what.missing:
        names = ", ".join(name.encode("unicode_escape").decode() for name in what.missing)
        lines += [f"# Not stored, since they may be secrets. Add them below: {names}", ""]
    return [
        *lines,
        "import os",
        "import sys",
        "",
        "# Set the environment variables of the project before: its keys are not part of this script.",
        f"os.chdir({what.folder!r})",
        f"sys.path[:0] = [{what.folder!r}, {what.folder + '/src'!r}]",
        "",
    ]


def loaded(entry_point: str, name: str) -> list[str]:
    """The lines of source that import the entry point, written as ``module:attribute``, as ``name``."""
    module, _colon, attribute = entry_point.partition(":")
    return ["import importlib", "", f"{name} = importlib.import_module({module!r}).{attribute}"]

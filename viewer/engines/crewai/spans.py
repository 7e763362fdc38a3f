"""The spans of a CrewAI run, from the event record of a checkpoint."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from viewer.engines.contents import short_title
from viewer.engines.crewai.contents import Contents
from viewer.engines.crewai.recorded_events import FAILED, Event, arguments_in
from viewer.engines.crewai.store_format import restarts
from viewer.engines.recorded_calls import CallMessage
from viewer.engines.spans import (
    Failure,
    Sources,
    Span,
    SpanKind,
    SpanStatus,
    failed_attempts,
)
from viewer.messages.catalog import gettext_noop as _

_UNITS = ("task_started", "method_execution_started", "lite_agent_execution_started")
_KINDS: Mapping[str, SpanKind] = {
    **dict.fromkeys(_UNITS, "unit"),
    "llm_call_started": "model",
    "tool_usage_started": "tool",
    "human_feedback_requested": "wait",
}
_ENDINGS = ("_completed", "_finished", "_paused", "_received", *FAILED)
GAPS = {"checkpoint_restore_started": _("until the resume"), "checkpoint_fork_started": _("until the fork")}


@dataclass(slots=True)
class _Record:
    """The events of a checkpoint. ``open`` are the events that began a span which has not ended."""

    by_id: dict[str, Event]
    open: dict[str, Event] = field(default_factory=dict)
    # The event that ended a span, by the id of the event that began it.
    ends: dict[str, Event] = field(default_factory=dict)


def spans(sources: Sources) -> list[Span]:
    """The spans that the newest of these checkpoints records, sorted by start."""
    if not sources or not isinstance(contents := sources[-1].contents, Contents):
        return []
    events = [event for event in contents.events if event.at is not None]
    record = _Record({event.id: event for event in events})
    for event in events:
        if event.kind in _KINDS and not _is_internal(event):
            record.open[event.id] = event
        elif event.kind.endswith(_ENDINGS) and (begun := _begun(event, record)):
            record.ends[begun.id] = event
            del record.open[begun.id]
    found = [
        _span(event, number, record)
        for number, event in enumerate(events)
        if event.kind in _KINDS and not _is_internal(event)
    ]
    return sorted([*found, *_attempts(found, events, record), *_gaps(events)], key=lambda span: span.start)


def _is_internal(event: Event) -> bool:
    """Whether an event began a unit of a flow that the engine itself runs. Calls of agents do not count."""
    return event.kind in _UNITS and event.is_internal


def _begun(event: Event, record: _Record) -> Event | None:
    """The open event whose span this event ends; None if there is none.

    This is the event that it names, or else the last open event of its kind and subject.
    """
    if event.started:
        return record.open.get(event.started)
    stem = next(event.kind.removesuffix(ending) for ending in _ENDINGS if event.kind.endswith(ending))
    same = [
        one
        for one in record.open.values()
        if one.kind.startswith(stem) and (one.task_id, one.subject) == (event.task_id, event.subject)
    ]
    return same[-1] if same else None


def _span(event: Event, number: int, record: _Record) -> Span:
    assert event.at is not None, "Events without a time are left out."
    kind, end = _KINDS[event.kind], record.ends.get(event.id)
    parent = _unit_above(event, record)
    status: SpanStatus = "open" if end is None else "failed" if end.is_failure else "done"
    return Span(
        id=event.id,
        kind=kind,
        label=event.call.model if kind == "model" else short_title(event.subject),
        start=event.at,
        end=end.at if end else None,
        parent=parent.id if parent else "",
        status=status,
        agent=event.agent or (end.agent if end else "") or _agent_above(event, record),
        call=end.call if end and kind == "model" else event.call,
        prompt=tuple(CallMessage(one.role, one.content) for one in event.messages),
        answer=end.text if end and status == "done" else event.text if kind == "tool" else "",
        error=end.text if end and status == "failed" else "",
        events_before=number,
        call_id=event.id if kind == "model" else "",
        arguments=arguments_in(event.arguments) if kind == "tool" else None,
    )


def _above(event: Event, record: _Record) -> Iterator[Event]:
    """The chain of events that caused an event, the nearest first."""
    seen = {event.id}
    while (event := record.by_id.get(event.parent, event)).id not in seen:
        seen.add(event.id)
        yield event


def _unit_above(event: Event, record: _Record) -> Event | None:
    units = (one for one in _above(event, record) if one.kind in _UNITS and not _is_internal(one))
    return next(units, None)


def _agent_above(event: Event, record: _Record) -> str:
    return next((one.agent for one in _above(event, record) if one.agent), "")


def _attempts(found: Sequence[Span], events: Sequence[Event], record: _Record) -> Iterator[Span]:
    """The attempts that were repeated because a guardrail refused the output or the agent failed."""
    failed: dict[str, Event] = {}
    failures: dict[str, list[Failure]] = {}
    for event in events:
        is_failed = event.is_refusal or event.kind == "agent_execution_error"
        if not is_failed and event.kind != "agent_execution_started":
            continue
        unit = _unit_above(event, record)
        if unit is None:
            continue
        if is_failed:
            failed[unit.id] = event
        elif (last := failed.pop(unit.id, None)) and last.at and event.at:
            failures.setdefault(unit.id, []).append(Failure(last.at, event.at, last.text))
    for span in found:
        yield from failed_attempts(span, failures.get(span.id, ()))


def _gaps(events: list[Event]) -> Iterator[Span]:
    """The spans of the time before each resume and fork."""
    begins = set(restarts([(event.kind, event.at.timestamp()) for event in events if event.at]))
    for number, (before, event) in enumerate(pairwise(events), 1):
        if number in begins and before.at and event.at:
            label = GAPS.get(event.kind, GAPS["checkpoint_restore_started"])
            yield Span(event.id, "gap", label, before.at, event.at)

"""What a run spent its time on: units of work, and the model calls, tools and waits within them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from viewer.engines.recorded_calls import CallMessage
from viewer.messages.catalog import gettext_noop as _
from viewer.stores.model_calls import NO_CALL, ModelCall

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

"""What a run spent its time on: units of work, and the model calls, tools and waits within them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from viewer.stores.model_calls import NO_CALL, ModelCall

SpanKind = Literal["unit", "model", "tool", "wait", "gap"]
SpanStatus = Literal["done", "failed", "open"]


@dataclass(frozen=True, slots=True)
class SpanMessage:
    """A message of a prompt."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in which one thing went on.

    ``kind`` is ``unit`` for a unit of work, ``wait`` for a wait for a person, and ``gap`` for the time
    between a run and its resume, fork or next turn. ``parent`` is the id of the unit that the span belongs
    to. ``end`` is None if it has not been recorded. ``is_estimated`` is true if the times are those of the
    step that the span was part of. ``checkpoint`` is the id of the newest checkpoint before the span; if the
    engine does not know that, ``events_before`` is the number of events recorded before the span.
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
    prompt: tuple[SpanMessage, ...] = field(default=(), repr=False)
    answer: str = field(default="", repr=False)
    error: str = field(default="", repr=False)
    is_estimated: bool = False
    checkpoint: str = ""
    events_before: int | None = None

    @property
    def seconds(self) -> float:
        """The duration in seconds; 0 if the end is not recorded."""
        return max(0.0, (self.end - self.start).total_seconds()) if self.end else 0.0


@dataclass(frozen=True, slots=True)
class SpanSource:
    """A checkpoint of the branch whose spans are wanted, with its contents."""

    checkpoint_id: str
    created_at: datetime | None
    contents: Any


Sources = Sequence[SpanSource]

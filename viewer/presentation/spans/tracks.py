"""The tracks of a timeline: one for each unit of work, with its model calls, tools and waits as bars."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from django.utils.translation import gettext as _

from viewer.engines.spans import RETRY, Span
from viewer.presentation.spans.axis import Axis
from viewer.prices import PriceList
from viewer.prices.price_list import UNKNOWN, Cost

# The smallest visible width of a bar, and the smallest with room for its tokens, in percent.
MIN_WIDTH, MIN_LABELLED_WIDTH = 0.6, 5.0
# The smallest widths with room for a label in a narrow window and on a phone.
NARROW_WIDTH, PHONE_WIDTH = 11.0, 20.0


@dataclass(frozen=True, slots=True)
class Bar:
    """A span on its track. ``kind`` is that of the span, or ``failed``. In percent.

    ``is_covered`` if calls are drawn on it, so that it has no label.
    """

    span: Span
    kind: str
    x: float
    width: float
    title: str
    is_covered: bool = False

    @property
    def is_labelled(self) -> bool:
        return self.width >= MIN_LABELLED_WIDTH and not self.is_covered

    @property
    def room(self) -> str:
        """The narrowest window in which its label fits: wide, narrow or phone."""
        if self.width >= PHONE_WIDTH:
            return "phone"
        return "narrow" if self.width >= NARROW_WIDTH else "wide"

    @property
    def middle(self) -> float:
        return round(self.x + self.width / 2, 3)


@dataclass(slots=True)
class Track:
    """A unit of work and what happened in it. ``unit`` is None for events outside of all units."""

    label: str
    unit: Span | None
    depth: int = 0
    spans: list[Span] = field(default_factory=list)
    bar: Bar | None = None
    bars: list[Bar] = field(default_factory=list)
    cost: Cost = UNKNOWN
    # The start and end of the unit in percent of the whole axis.
    window: tuple[float, float] = (0.0, 100.0)

    @property
    def tokens(self) -> int:
        return sum(span.call.tokens for span in self.spans)

    @property
    def attempts(self) -> int:
        """How often the unit was tried."""
        return 1 + sum(span.kind == "attempt" for span in self.spans)

    @property
    def seconds(self) -> float:
        """Its seconds without waits for a person."""
        if self.unit is None:
            return sum(span.seconds for span in self.spans if span.kind in ("model", "tool"))
        waited = sum(span.seconds for span in self.spans if span.kind == "wait")
        return max(0.0, self.unit.seconds - waited)


def tracks_of(spans: Sequence[Span], axis: Axis, prices: PriceList) -> list[Track]:
    """The tracks of these spans, in the order in which the units began."""
    units = {span.id: span for span in spans if span.kind == "unit"}
    tracks = {span.id: Track(_attempt_label(span, units.values()), span) for span in units.values()}
    others = Track(_("Outside of any unit"), None)
    for span in spans:
        if span.kind not in ("unit", "gap"):
            tracks.get(span.parent, others).spans.append(span)
    found = [*tracks.values(), *([others] if others.spans else [])]
    for track in found:
        track.depth = _depth(track.unit, units)
        track.cost = cost_of(track.spans, prices)
        track.bar = _bar(track.unit, axis) if track.unit else None
        shown = [*track.spans, *_retries(track.spans)]
        bars = [
            replace(bar, is_covered=span.kind == "attempt" and _has_calls(span, track.spans))
            for span in shown
            if (bar := _bar(span, axis)) is not None
        ]
        # A narrow bar is wider than its time. Its neighbour must not hide it.
        # The calls of a failed attempt are drawn on it.
        track.bars = sorted(bars, key=lambda bar: (bar.span.kind != "attempt", -bar.width))
    return found


def _has_calls(attempt: Span, spans: Iterable[Span]) -> bool:
    """Whether a call began during an attempt."""
    end = attempt.end or attempt.start
    return any(one.kind in ("model", "tool") and attempt.start <= one.start < end for one in spans)


def cost_of(spans: Iterable[Span], prices: PriceList) -> Cost:
    """The cost of the model calls among these spans."""
    total = UNKNOWN
    for span in spans:
        if span.kind == "model" and (call := span.call).tokens:
            amount = prices.price(call.model, call.tokens_in, call.tokens_out, call.cached, span.start)
            total += Cost(amount, int(amount is None))
    return total


def _attempt_label(unit: Span, units: Iterable[Span]) -> str:
    """The unit's label, with the number of the attempt if it is not the first."""
    same = [one.id for one in units if (one.label, one.parent) == (unit.label, unit.parent)]
    number = same.index(unit.id) + 1
    if number == 1:
        return unit.label
    return _("%(label)s (run %(number)s)") % {"label": unit.label, "number": number}


def _depth(unit: Span | None, units: dict[str, Span]) -> int:
    depth, seen = 0, set[str]()
    while unit is not None and unit.parent in units and unit.id not in seen:
        seen.add(unit.id)
        unit, depth = units[unit.parent], depth + 1
    return min(depth, 4)


def _retries(spans: Sequence[Span]) -> list[Span]:
    """The time between each failed call and the next call of its kind, if no attempt of the unit failed."""
    found: list[Span] = []
    if any(span.kind == "attempt" for span in spans):
        return found
    for kind in ("model", "tool"):
        same = [span for span in spans if span.kind == kind]
        for before, after in pairwise(same):
            if before.status == "failed" and before.end and before.end < after.start:
                found.append(
                    Span(f"{after.id}-retry", "retry", RETRY, before.end, after.start, before.parent)
                )
    return found


def _bar(span: Span, axis: Axis) -> Bar | None:
    """The bar of a span; None if it is outside of the window."""
    start = axis.x(span.start)
    end = axis.x(span.end) if span.end else start
    if end < 0 or start > 100:
        return None
    start, end = max(0.0, start), min(100.0, end)
    width = max(end - start, MIN_WIDTH)
    x = min(start, 100 - width)
    kind = "failed" if span.status == "failed" else span.kind
    return Bar(span, kind, round(x, 3), round(width, 3), span.label)

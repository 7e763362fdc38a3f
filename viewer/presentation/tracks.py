"""The tracks of a timeline, one for each unit of work, on a time axis that folds idle periods."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise

from django.utils.translation import gettext as _

from viewer.engines.recorded_calls import RETRY, Span
from viewer.records.prices import UNKNOWN, Cost, PriceList

# The time axis. Idle periods are folded, so that the others stay readable.


# Idle periods are folded if they take at least this many seconds and this share of the working time.
MIN_FOLDED_SECONDS, MIN_FOLDED_PART = 2.0, 0.05
# The width of a fold, in percent of the axis.
FOLD_WIDTH = 2.5
MAX_TICKS = 6
_BELOW_A_SECOND = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_STEPS = (*_BELOW_A_SECOND, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200)


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on the axis: seconds of work since the start, and its position in percent."""

    seconds: float
    x: float


@dataclass(frozen=True, slots=True)
class Fold:
    """A folded period: its seconds, and its middle in percent. ``label`` says why nothing ran."""

    seconds: float
    x: float
    label: str


@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece of the axis, in seconds since the epoch, and its start in axis seconds."""

    start: float
    end: float
    is_folded: bool
    begins: float
    label: str = ""


class Axis:
    """Maps times to positions between 0 and 100 percent, where ``window`` is the part that is shown."""

    def __init__(self, spans: Sequence[Span], window: tuple[float, float] = (0.0, 100.0)) -> None:
        self.window = window
        stretches = _active(spans)
        self.worked = sum(end - start for start, end in stretches)
        least = max(MIN_FOLDED_SECONDS, self.worked * MIN_FOLDED_PART)
        # The width of a fold in axis seconds.
        self._fold = max(self.worked, 0.001) * FOLD_WIDTH / 100
        self._pieces = self._laid_out(stretches, least, spans)
        self._total = self._end(self._pieces[-1]) if self._pieces else 1.0

    def _laid_out(
        self, stretches: Sequence[tuple[float, float]], least: float, spans: Sequence[Span]
    ) -> list[_Piece]:
        pieces: list[_Piece] = []
        at = 0.0
        for number, (start, end) in enumerate(stretches):
            if number:
                before = stretches[number - 1][1]
                is_folded = start - before >= least
                label = _why_idle(spans, before, start) if is_folded else ""
                pieces.append(_Piece(before, start, is_folded, at, label))
                at = self._end(pieces[-1])
            pieces.append(_Piece(start, end, False, at))
            at = self._end(pieces[-1])
        return pieces

    def _end(self, piece: _Piece) -> float:
        return piece.begins + (self._fold if piece.is_folded else piece.end - piece.start)

    def x(self, at: datetime) -> float:
        """The position of a time in percent of the window, which may be outside of it."""
        seconds = at.timestamp()
        piece = next((one for one in self._pieces if seconds <= one.end), None)
        if piece is None:
            return self._zoomed(self._total)
        share = min(1.0, max(0.0, (seconds - piece.start) / max(piece.end - piece.start, 1e-9)))
        return self._zoomed(piece.begins + share * (self._end(piece) - piece.begins))

    def _zoomed(self, axis_seconds: float) -> float:
        first, last = self.window
        percent = axis_seconds / max(self._total, 1e-9) * 100
        return round((percent - first) / (last - first) * 100, 3)

    @property
    def folds(self) -> list[Fold]:
        """The folded periods within the window."""
        folded = [piece for piece in self._pieces if piece.is_folded]
        found = [
            Fold(piece.end - piece.start, self._zoomed(piece.begins + self._fold / 2), piece.label)
            for piece in folded
        ]
        return [fold for fold in found if 0 <= fold.x <= 100]

    @property
    def ticks(self) -> list[Tick]:
        """Marks at round numbers of working seconds."""
        first, last = self.window
        shown = self.worked * (last - first) / 100
        step = next((one for one in _STEPS if shown / one <= MAX_TICKS), shown / MAX_TICKS)
        ticks: list[Tick] = []
        worked = 0.0
        for piece in self._pieces:
            length = 0.0 if piece.is_folded else piece.end - piece.start
            while len(ticks) * step < worked + length or not ticks:
                ticks.append(Tick(len(ticks) * step, self._zoomed(piece.begins + len(ticks) * step - worked)))
            worked += length
        return [tick for tick in ticks if 0 <= tick.x <= 100]


def _active(spans: Sequence[Span]) -> list[tuple[float, float]]:
    """The periods in which something ran, in order. A unit that waits for a person does not run."""
    waits = _merged([_range(span) for span in spans if span.kind == "wait" and span.end])
    ran = [_range(span) for span in spans if span.kind in ("model", "tool")]
    for span in spans:
        if span.kind == "unit":
            ran += _without(_range(span), waits)
    return _merged(ran)


def _range(span: Span) -> tuple[float, float]:
    start = span.start.timestamp()
    return start, max(start, span.end.timestamp()) if span.end else start


def _merged(ranges: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _without(whole: tuple[float, float], holes: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The parts of a range that none of these cover. Its ends always remain, so that it has a position."""
    start, end = whole
    parts = [(start, start)]
    for first, last in holes:
        if last <= start or first >= end:
            continue
        if first > parts[-1][1]:
            parts.append((parts[-1][1], first))
        parts.append((min(last, end), min(last, end)))
    parts.append((parts[-1][1], end))
    return parts


def _why_idle(spans: Sequence[Span], start: float, end: float) -> str:
    """The label of the wait or gap that covers most of an idle period; empty if none does."""
    idle = [span for span in spans if span.kind in ("wait", "gap") and span.end]
    covered = [(min(end, _range(span)[1]) - max(start, _range(span)[0]), span.label) for span in idle]
    longest = max(covered, default=(0.0, ""))
    return longest[1] if longest[0] > 0 else ""


# The tracks of a timeline: one for each unit of work, with its model calls, tools and waits as bars.


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
    costs = (prices.cost([span.call], span.start) for span in spans if span.kind == "model")
    return sum(costs, UNKNOWN)


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

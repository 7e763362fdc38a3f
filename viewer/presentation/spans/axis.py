"""The time axis. Idle periods are folded, so that the others stay readable."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from viewer.engines.spans import Span

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

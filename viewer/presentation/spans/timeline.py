"""The page of a timeline."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from viewer.engines.spans import Span
from viewer.presentation.spans.axis import Axis
from viewer.presentation.spans.tracks import Track, tracks_of
from viewer.presentation.spans.usage import UsageRow, total_of, usage_by
from viewer.prices import PriceList, current_prices

# The smallest window, in percent of the axis.
MIN_WINDOW = 0.5
# Its start and end, in percent of the axis.
TimeRange = tuple[float, float]


@dataclass(frozen=True, slots=True)
class TimelineView:
    """A timeline with its summaries. ``selected`` is the span that the address names, if it exists."""

    spans: Sequence[Span]
    tracks: Sequence[Track]
    axis: Axis
    selected: Span | None
    track: Track | None
    by_agent: Sequence[UsageRow]
    by_model: Sequence[UsageRow]
    total: UsageRow
    # The windows of the zoom links by label, without those that would change nothing.
    zoom: dict[str, TimeRange]
    price_fault: str

    @property
    def is_estimated(self) -> bool:
        return any(span.is_estimated for span in self.spans)

    @property
    def has_agents(self) -> bool:
        """Whether a model call names its agent."""
        return any(span.agent for span in self.spans if span.kind == "model")


def timeline_of(
    spans: Sequence[Span],
    selected: str = "",
    window: TimeRange = (0.0, 100.0),
    prices: PriceList | None = None,
) -> TimelineView:
    """The timeline of these spans. ``selected`` is the id of a span; ``window`` is the visible part."""
    prices = prices or current_prices()
    axis = Axis(spans, window)
    tracks = tracks_of(spans, axis, prices)
    whole = Axis(spans)
    for one in tracks:
        one.window = _around(one, whole)
    chosen = next((span for span in spans if span.id == selected), None)
    track = next((one for one in tracks if chosen and chosen in (one.unit, *one.spans)), None)
    return TimelineView(
        spans=spans,
        tracks=tracks,
        axis=axis,
        selected=chosen,
        track=track,
        by_agent=usage_by(spans, prices, lambda span: span.agent),
        by_model=usage_by(spans, prices, lambda span: span.call.model or span.label),
        total=total_of(spans, prices),
        zoom=zoom_of(window, track),
        price_fault=prices.fault,
    )


def window_in(first: str, last: str) -> TimeRange:
    """The window that an address names, in percent of the axis; the whole axis by default."""
    try:
        start, end = float(first or 0), float(last or 100)
    except ValueError:
        return 0.0, 100.0
    # Also refuses what is no number.
    return (start, end) if start >= 0 and start + MIN_WINDOW <= end <= 100 else (0.0, 100.0)


def zoom_of(window: TimeRange, track: Track | None = None) -> dict[str, TimeRange]:
    """The windows of the zoom links around this window, and around the selected track."""
    first, last = window
    width, middle = last - first, (first + last) / 2
    before, after = max(0.0, first - width / 2), min(100.0, last + width / 2)
    found: dict[str, TimeRange] = {}
    if first > 0:
        found[_("Earlier")] = _window(before, before + width)
    if last < 100:
        found[_("Later")] = _window(after - width, after)
    if track and track.window != window:
        found[_("Zoom to selection")] = track.window
    if width / 2 >= MIN_WINDOW:
        found[_("Zoom in")] = _window(middle - width / 4, middle + width / 4)
    if width < 100:
        found[_("Zoom out")] = _window(middle - width, middle + width)
    return found


def _window(first: float, last: float) -> TimeRange:
    return round(max(0.0, first), 2), round(min(100.0, last), 2)


def _around(track: Track, axis: Axis) -> TimeRange:
    """The window that a track nearly fills."""
    spans = [track.unit] if track.unit else track.spans
    first = min(axis.x(span.start) for span in spans)
    last = max(axis.x(span.end or span.start) for span in spans)
    margin = max((last - first) * 0.05, MIN_WINDOW)
    return _window(first - margin, last + margin)

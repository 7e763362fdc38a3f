"""The page of a timeline: its tracks, the usage of its units and models, and why it may be empty."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from viewer.engines.spans import Span
from viewer.models import Checkpoint, Job, Run
from viewer.presentation.tracks import Axis, Track, cost_of, tracks_of
from viewer.records.prices import Cost, PriceList, current_prices

# Why a timeline is empty.


# Kinds of jobs that run no unit of work.
WITHOUT_UNITS = (Job.Kind.PUBLISH, Job.Kind.SCORE)


def why_job_is_empty(job: Job) -> str:
    """Why a job has no spans."""
    if job.kind in WITHOUT_UNITS:
        return _("A job of this kind runs no unit of work, so it has no timeline.")
    if job.started_at is None and not job.has_ended:
        return _("The job has not started yet.")
    if not job.has_ended:
        return _("The job has started, but no unit of work has.")
    if not job.events.filter(kind="started").exists():
        return _("The job has no events: it ended before it ran, or old events were removed.")
    return _("The job ended before a unit of work started.")


def failed_job(run: Run, branch: str) -> Job | None:
    """The newest job of a branch, if it did not succeed."""
    jobs = run.jobs.filter(branch=branch).exclude(kind__in=WITHOUT_UNITS)
    newest = jobs.select_related("location").order_by("-created_at").first()
    return newest if newest and newest.has_ended and newest.status != Job.Status.SUCCEEDED else None


def why_branch_is_empty(checkpoints: Sequence[Checkpoint]) -> str:
    """Why a branch with these checkpoints has no spans."""
    if not checkpoints:
        return _("This run has no checkpoints.")
    if all(one.has_no_copy for one in checkpoints):
        return _("The copies of the checkpoints of this branch were deleted.")
    return _("The engine has recorded no times on this branch.")


# The usage of the units, agents and models of a timeline.


@dataclass(frozen=True, slots=True)
class UsageRow:
    """A line of a summary: the number of calls, and their seconds, tokens and cost."""

    label: str
    calls: int
    seconds: float
    tokens_in: int
    tokens_out: int
    tokens: int
    cost: Cost


def usage_by(spans: Sequence[Span], prices: PriceList, name_of: Callable[[Span], str]) -> list[UsageRow]:
    """The usage of the model calls among these spans by name, most tokens first."""
    calls: dict[str, list[Span]] = {}
    for span in spans:
        if span.kind == "model":
            calls.setdefault(name_of(span), []).append(span)
    rows = [_row(name or _("not recorded"), some, prices) for name, some in calls.items()]
    return sorted(rows, key=lambda row: -row.tokens)


def total_of(spans: Sequence[Span], prices: PriceList) -> UsageRow:
    """The usage of all model calls among these spans."""
    return _row(_("Total"), [span for span in spans if span.kind == "model"], prices)


def _row(label: str, calls: Sequence[Span], prices: PriceList) -> UsageRow:
    return UsageRow(
        label,
        len(calls),
        sum(span.seconds for span in calls),
        sum(span.call.tokens_in for span in calls),
        sum(span.call.tokens_out for span in calls),
        sum(span.call.tokens for span in calls),
        cost_of(calls, prices),
    )


# The page of a timeline.


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

"""The timeline of a run: its spans, and the page with them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from django.utils.translation import gettext as _

from viewer.engines import engine_of, unit_events, unit_subjects
from viewer.engines.contents import short_title
from viewer.engines.recorded_calls import Failure, Span, SpanKind, SpanSource, SpanStatus, failed_attempts
from viewer.models import Checkpoint, Job, JobEvent, Run
from viewer.presentation.run.branches import line_of
from viewer.presentation.tracks import Axis, Track, cost_of, tracks_of
from viewer.records.bodies import bodies_of
from viewer.records.prices import Cost, PriceList, call_in, current_prices
from viewer.stores.protocol import duration_of

# The spans of a branch of a run, and of a job.


# Maximum checkpoints that a page reads if the newest one does not record all spans.
MAX_READ = 200
# Maximum events of a job that a page reads.
MAX_EVENTS = 20_000
MAX_ANSWER = 20_000
CALLS: dict[str, SpanKind] = {"model": "model", "tool": "tool"}


@dataclass(frozen=True, slots=True)
class BranchSpans:
    """The spans of a branch and their sources. ``left_out`` counts older checkpoints that were not read."""

    branch: str
    spans: Sequence[Span]
    checkpoints: Sequence[Checkpoint]
    left_out: int = 0
    sources: Sequence[SpanSource] = ()

    def checkpoint_of_call(self, span: Span) -> Checkpoint | None:
        """The checkpoint that records the model call of a span; None if the span is no model call."""
        if not span.call_id:
            return None
        if span.checkpoint:
            return self.checkpoint_before(span)
        return next((one for one in reversed(self.checkpoints) if not one.has_no_copy), None)

    def checkpoint_before(self, span: Span) -> Checkpoint | None:
        """The newest checkpoint of the branch that was written before a span."""
        if span.checkpoint:
            return next((one for one in self.checkpoints if one.checkpoint_id == span.checkpoint), None)
        if span.events_before is None:
            return None
        before = [one for one in self.checkpoints if one.event_count <= span.events_before]
        if before:
            return before[-1]
        # A checkpoint that was written as the span began restores the same state.
        first = next(iter(self.checkpoints), None)
        return first if first and engine_of(first.location).is_start(first.trigger) else None


def branch_spans(run: Run, branch: str) -> BranchSpans:
    """The spans of a branch of a run from its start; of the branch that was written last if there is none."""
    newest = run.checkpoints.order_by("-row")
    head = (newest.filter(branch=branch).first() if branch else None) or newest.first()
    if head is None:
        return BranchSpans("", (), ())
    engine, line = engine_of(run.location), _ancestors(run, head)
    readable = [one for one in line if not one.has_no_copy]
    read = readable[-1:] if engine.has_all_spans_in_head else readable[-MAX_READ:]
    bodies = {one.pk: body for one, body in bodies_of(run.location, read)}
    sources = [
        SpanSource(one.checkpoint_id, one.created_at, engine.contents_of(bodies[one.pk]))
        for one in read
        if one.pk in bodies
    ]
    left_out = 0 if engine.has_all_spans_in_head else len(line) - len(read)
    return BranchSpans(head.branch, _with_attempts(run, engine.spans(sources)), line, left_out, sources)


def count_read(run: Run, branch: str) -> int:
    """The number of checkpoints that ``branch_spans`` decodes."""
    if engine_of(run.location).has_all_spans_in_head:
        return 1
    return min(MAX_READ, run.checkpoints.filter(pk__in=line_of(run, branch)).count())


def _with_attempts(run: Run, spans: Sequence[Span]) -> Sequence[Span]:
    """The spans with the failed attempts that only the events of the run's jobs record."""
    units = {span.unit_id: span for span in spans if span.unit_id}
    if not units:
        return spans
    failures: dict[str, list[Failure]] = {}
    events = JobEvent.objects.filter(job__run=run, kind__in=unit_events("retried"))
    for event in events.order_by("at")[:MAX_EVENTS]:
        if (name := str(event.data.get("id"))) in units:
            failures.setdefault(name, []).append(_failure(event))
    found = [one for name, ones in failures.items() for one in failed_attempts(units[name], ones)]
    return sorted([*spans, *found], key=lambda span: span.start)


def _failure(event: JobEvent) -> Failure:
    """The failed attempt after which an event reports the next one."""
    seconds = duration_of(event.data.get("waited")) or 0.0
    return Failure(event.at - timedelta(seconds=seconds), event.at, str(event.data.get("error") or ""))


def _ancestors(run: Run, head: Checkpoint) -> list[Checkpoint]:
    """A checkpoint and those that it continues, oldest first."""
    rows = run.checkpoints.filter(pk__in=line_of(run, head.branch)).select_related("location", "stored_copy")
    by_pk = {
        row.pk: row for row in rows.defer("stored_copy__data", "stored_copy__event_ids", "stored_copy__calls")
    }
    line: list[Checkpoint] = []
    at: int | None = head.pk
    while at is not None and (row := by_pk.pop(at, None)) is not None:
        line.append(row)
        at = row.parent_id
    return line[::-1]


@dataclass(slots=True)
class _Open:
    """The open spans while a job's events are read. ``titles`` are those of the plan, by unit."""

    titles: dict[str, str]
    units: dict[str, Span] = field(default_factory=dict)
    # The last call of each kind and agent, and questions by number.
    others: dict[tuple[str, str], Span] = field(default_factory=dict)
    found: list[Span] = field(default_factory=list)
    # The failed attempts of each open unit.
    failures: dict[str, list[Failure]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


def job_spans(job: Job) -> list[Span]:
    """The spans that the events of a job record, by their start."""
    state = _Open({str(step.get("unit")): short_title(str(step.get("title") or "")) for step in job.plan})
    events = job.events.order_by("seq")[:MAX_EVENTS]
    for event in events:
        _add(state, event)
    for name in list(state.units):
        _end_unit(state, name, state.units[name])
    state.found += state.others.values()
    if job.has_ended:
        # Spans that were open at its end did not finish.
        state.found = [replace(span, end=span.end or job.ended_at) for span in state.found]
    return sorted(state.found, key=lambda span: span.start)


def _add(state: _Open, event: JobEvent) -> None:
    subject, _underscore, happened = event.kind.rpartition("_")
    if subject in unit_subjects():
        _add_unit(state, event, subject, happened)
    elif (kind := CALLS.get(subject)) is not None:
        _add_call(state, event, kind, happened)
    elif event.kind == "text":
        agent = str(event.data.get("agent") or "")
        state.texts[agent] = (state.texts.get(agent, "") + str(event.data.get("text") or ""))[:MAX_ANSWER]
    elif event.kind == "question":
        key = ("question", str(event.data.get("number")))
        state.others[key] = _begun(state, event, "wait", _("waiting for a person"))
    elif event.kind in ("answered", "withdrawn"):
        _end(state, ("question", str(event.data.get("number"))), event)


def _add_unit(state: _Open, event: JobEvent, subject: str, happened: str) -> None:
    name = str(event.data.get(subject) or "")
    if happened == "started":
        label = state.titles.get(name) or short_title(str(event.data.get("description") or name))
        state.units[name] = replace(_begun(state, event, "unit", label), parent="")
    elif happened == "retried":
        state.failures.setdefault(name, []).append(_failure(event))
    elif (span := state.units.get(name)) is not None:
        _end_unit(state, name, _ended(span, event))


def _end_unit(state: _Open, name: str, span: Span) -> None:
    del state.units[name]
    state.found += [span, *failed_attempts(span, state.failures.pop(name, ()))]


def _add_call(state: _Open, event: JobEvent, kind: SpanKind, happened: str) -> None:
    key = (kind, str(event.data.get("agent") or ""))
    if happened == "started":
        if (lost := state.others.pop(key, None)) is not None:
            state.found.append(replace(lost, end=event.at))
        state.texts.pop(key[1], None)
        state.others[key] = _begun(state, event, kind, str(event.data.get(kind) or ""))
    else:
        _end(state, key, event)


def _begun(state: _Open, event: JobEvent, kind: SpanKind, label: str) -> Span:
    agent = str(event.data.get("agent") or "")
    units = list(state.units.values())
    of_agent = [unit for unit in units if agent and agent in (unit.agent, unit.label)]
    parent = (of_agent or units)[-1].id if units else ""
    answer = str(event.data.get("arguments") or "") if kind == "tool" else ""
    return Span(
        str(event.seq),
        kind,
        label,
        event.at,
        parent=parent,
        status="open",
        agent=agent,
        answer=answer,
    )


def _end(state: _Open, key: tuple[str, str], event: JobEvent) -> None:
    span = state.others.pop(key, None)
    if span is not None:
        answer = state.texts.pop(key[1], "") if key[0] == "model" else span.answer
        state.found.append(_ended(replace(span, answer=answer), event))


def _ended(span: Span, event: JobEvent) -> Span:
    status: SpanStatus = "failed" if event.kind.endswith("_failed") else "done"
    call = call_in(event.data) if span.kind == "model" else span.call
    answer = span.answer or str(event.data.get("output") or "")
    error = str(event.data.get("error") or "")
    return replace(span, end=event.at, status=status, call=call, answer=answer, error=error)


# Why a timeline is empty.


# Kinds of jobs that run no unit of work.
WITHOUT_UNITS = (Job.Kind.PUBLISH, Job.Kind.SCORE, Job.Kind.REPLAY)


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

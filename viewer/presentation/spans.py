"""The spans of a branch of a run, and of a job."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from django.utils.translation import gettext as _

from viewer.engines import engine_of, unit_events, unit_subjects
from viewer.engines.contents import short_title
from viewer.engines.spans import Failure, Span, SpanKind, SpanSource, SpanStatus, failed_attempts
from viewer.models import Checkpoint, Job, JobEvent, Run
from viewer.presentation.run.branches import line_of
from viewer.records.bodies import bodies_of
from viewer.records.prices import call_in

# Maximum checkpoints that a page reads if the newest one does not record all spans.
MAX_READ = 200
# Maximum events of a job that a page reads.
MAX_EVENTS = 20_000
MAX_ANSWER = 20_000
# Maximum seconds between two attempts of a unit.
MAX_WAITED = 1_000_000.0
CALLS: dict[str, SpanKind] = {"model": "model", "tool": "tool"}


@dataclass(frozen=True, slots=True)
class BranchSpans:
    """The spans of a branch. ``left_out`` counts the older checkpoints that were not read."""

    branch: str
    spans: Sequence[Span]
    checkpoints: Sequence[Checkpoint]
    left_out: int = 0

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
    return BranchSpans(head.branch, _with_attempts(run, engine.spans(sources)), line, left_out)


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
    waited = event.data.get("waited")
    seconds = min(max(waited, 0.0), MAX_WAITED) if isinstance(waited, int | float) else 0.0
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

"""The model calls of a checkpoint, and the answers of their replays."""

import json
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import QuerySet, prefetch_related_objects
from django.utils.translation import gettext as _

from viewer.engines.contents import Section
from viewer.engines.plan import MISSING
from viewer.engines.protocol import Contents
from viewer.engines.recorded_calls import CallMessage, RecordedCall, answer_in
from viewer.host_requests import NotReadable
from viewer.models import Checkpoint, Collection, Job, JobEvent, uuid_of
from viewer.presentation.comparison import DIFF_SECONDS, MAX_SHOWN, DetailColumn, detail_of, row_of
from viewer.presentation.diff import Clock
from viewer.records.bodies import calls_in, readable_contents
from viewer.records.collections import expected_of_calls, whole_answer
from viewer.records.prices import UNKNOWN, Cost, PriceList, call_in, current_prices
from viewer.stores.protocol import ModelCall, count_of, duration_of
from viewer.validation import number_in

# The model calls of a checkpoint.


# The most messages of a call that a page shows. The others are in the checkpoint itself.
MAX_MESSAGES = 200


@dataclass(frozen=True, slots=True)
class CallView:
    """A call of a checkpoint with what it cost. ``messages`` are the newest ones."""

    call: RecordedCall
    cost: Cost

    @property
    def messages(self) -> Sequence[CallMessage]:
        return self.call.messages[-MAX_MESSAGES:]

    @property
    def left_out(self) -> int:
        """The number of older messages that are not shown."""
        return max(0, len(self.call.messages) - MAX_MESSAGES)


@dataclass(frozen=True, slots=True)
class CallInCheckpoint:
    """A call, its place among those of the checkpoint, and the names of its neighbours."""

    view: CallView
    number: int
    total: int
    earlier: str
    later: str


def recorded_calls_of(checkpoint: Checkpoint) -> list[RecordedCall]:
    """The model calls of a checkpoint, oldest first. Raises NotReadable."""
    return calls_in(readable_contents(checkpoint))


def call_named(calls: Sequence[RecordedCall], name: str, checkpoint: Checkpoint) -> CallInCheckpoint | None:
    """The call with this name; None if there is none."""
    names = [call.name for call in calls]
    if name not in names:
        return None
    at = names.index(name)
    (view,) = call_views(calls[at : at + 1], checkpoint)
    earlier = names[at - 1] if at else ""
    later = names[at + 1] if at + 1 < len(names) else ""
    return CallInCheckpoint(view, at + 1, len(calls), earlier, later)


def call_views(calls: Iterable[RecordedCall], checkpoint: Checkpoint) -> list[CallView]:
    """The calls with what they cost, at the prices of their time."""
    prices = current_prices()
    return [CallView(call, prices.cost([call.usage], call.start or checkpoint.created_at)) for call in calls]


# The replays of one call, and their answers.


# Jobs that a call page lists.
MAX_REPLAYS = 50
# Characters of all answers on the page of several calls, which is fetched again while they run.
MAX_SHOWN_OF_CALLS = 400_000
EVENTS = ("model_completed", "call_replayed")


@dataclass(frozen=True, slots=True)
class ReplayedAnswer:
    """An answer with what it cost, or the ``error`` of its call. ``attempt`` counts from 1 for each model.

    It is the recorded one if ``attempt`` is 0.
    """

    model: str
    attempt: int
    message: CallMessage | None
    seconds: float | None
    tokens: int
    cost: Cost
    error: str = ""
    # The number of its event in the job.
    seq: int = 0
    # Whether only its beginning was recorded.
    is_cut: bool = False
    # The query of the form of a fork that uses it; empty if none can.
    fork_query: str = ""

    @property
    def text(self) -> Any:
        """What a comparison shows: the text, then each requested tool call; MISSING without an answer."""
        if self.message is None:
            return MISSING
        calls = [f"{tool.name}({_json(tool.arguments)})" for tool in self.message.tools]
        return "\n".join(part for part in (self.message.text, *calls) if part)


@dataclass(frozen=True, slots=True)
class Answers:
    """The recorded answer, then the new ones, each with its differences from the recorded one."""

    unit: str
    columns: list[tuple[ReplayedAnswer, DetailColumn]]
    # The name of the recorded call, and the checkpoint that records it; empty if it is gone.
    call: str
    checkpoint: Checkpoint | None

    @property
    def is_empty(self) -> bool:
        return len(self.columns) < 2


def recorded_call(job: Job) -> tuple[Contents, CallView] | None:
    """The call that a job replays, and the contents that record it; None if it can no longer be read."""
    if job.checkpoint is None:
        return None
    try:
        contents = readable_contents(job.checkpoint)
    except NotReadable:
        return None
    found = call_named(calls_in(contents), job.replayed_call, job.checkpoint)
    return (contents, found.view) if found else None


def answers_of(job: Job, view: CallView | None) -> Answers:
    """The answers of a replay. ``view`` is the recorded call, None if it can no longer be read."""
    return _compared(job, view, list(new_answers(job)), MAX_SHOWN, Clock(DIFF_SECONDS))


def _compared(
    job: Job, view: CallView | None, new: Sequence[ReplayedAnswer], max_shown: int, clock: Clock
) -> Answers:
    name, answers = job.replayed_call, [_recorded(view), *new]
    row = row_of((Section.OUTPUTS, name, ""), _("Answer"), [one.text for one in answers])
    detail = detail_of(row, max_shown=max_shown, clock=clock)
    if view and job.checkpoint:
        answers = [replace(one, fork_query=_fork_query(job, view.call, one)) for one in answers]
    return Answers(detail.unit, list(zip(answers, detail.columns, strict=True)), name, job.checkpoint)


def _fork_query(job: Job, call: RecordedCall, answer: ReplayedAnswer) -> str:
    if not answer.seq or answer.message is None or answer.is_cut or not call.can_use(answer.message):
        return ""
    return urlencode({"edit": call.part, "call": call.name, "answer": f"{job.pk}:{answer.seq}"})


def _replays(checkpoint: Checkpoint, name: str) -> QuerySet[Job]:
    """The jobs of the checkpoint's run that replayed the call of this name."""
    return Job.objects.filter(kind=Job.Kind.REPLAY, run=checkpoint.run_id, request__replay__recorded=name)


def replays_of(checkpoint: Checkpoint, name: str) -> list[Job]:
    """The replays of the call of this name, the newest first."""
    related = ("requested_by", "checkpoint", "project", "run", "location")
    jobs = _replays(checkpoint, name).select_related(*related)
    return list(jobs.order_by("-created_at")[:MAX_REPLAYS])


def replayed_answer(text: str, checkpoint: Checkpoint, name: str) -> CallMessage | None:
    """The answer that ``JOB:NUMBER`` names, if the job is a replay of the call of this name."""
    key, _colon, typed = text.partition(":")
    pk, number = uuid_of(key), number_in(typed)
    job = _replays(checkpoint, name).filter(pk=pk).first() if pk and number else None
    return whole_answer(job, number) if job and number else None


def new_answers(job: Job) -> Iterator[ReplayedAnswer]:
    """The answers of a replay in the order of its calls."""
    return _answers_in(job.events.filter(kind__in=EVENTS).order_by("seq"), current_prices())


def _answers_in(events: Iterable[JobEvent], prices: PriceList) -> Iterator[ReplayedAnswer]:
    used = list[ModelCall]()
    for event in events:
        if event.kind == "model_completed":
            used.append(call_in(event.data))
            continue
        data = event.data
        error = str(data.get("error") or "")
        yield ReplayedAnswer(
            model=str(data.get("model") or ""),
            attempt=count_of(data.get("attempt")) or 1,
            message=None if error else answer_in(data),
            seconds=duration_of(data.get("seconds")),
            tokens=sum(one.tokens for one in used),
            cost=prices.cost(used, event.at),
            error=error,
            seq=event.seq,
            is_cut=bool(data.get("is_cut")),
        )
        used = []


# The replays of several calls, on one page.


@dataclass(frozen=True, slots=True)
class ComparedCall:
    """The replay of one of the calls. ``expected`` is the expected answer of its item in a collection."""

    job: Job
    answers: Answers
    can_fork: bool
    expected: str


@dataclass(slots=True)
class ModelTotal:
    """What the answers of one model needed; those of the recorded calls if ``model`` is empty.

    ``same`` are equal to the recorded ones.
    """

    model: str
    answered: int = 0
    failed: int = 0
    same: int = 0
    seconds: float = 0
    tokens: int = 0
    cost: Cost = UNKNOWN

    def add(self, answer: ReplayedAnswer, column: DetailColumn) -> None:
        """Count another answer."""
        self.answered += not answer.error
        self.failed += bool(answer.error)
        self.same += column.cell.is_same and not answer.error
        self.seconds += answer.seconds or 0
        self.tokens += answer.tokens
        self.cost += answer.cost


def compared_calls(
    jobs: Sequence[Job],
    collection: Collection | None,
    parts_of: Callable[[Checkpoint, Contents], Container[str]],
) -> list[ComparedCall]:
    """The replays of calls, maybe items of a collection. A fork can edit the ``parts_of`` a checkpoint."""
    views, can_fork = dict[tuple[int, str], CallView](), set[tuple[int, str]]()
    checkpoints = {job.checkpoint.pk: job.checkpoint for job in jobs if job.checkpoint}
    prefetch_related_objects(list(checkpoints.values()), "stored_copy")
    for pk, checkpoint in checkpoints.items():
        names = {job.replayed_call for job in jobs if job.checkpoint_id == pk}
        with suppress(NotReadable):
            contents = readable_contents(checkpoint)
            parts = parts_of(checkpoint, contents)
            calls = [call for call in calls_in(contents) if call.name in names]
            views |= {(pk, view.call.name): view for view in call_views(calls, checkpoint)}
            can_fork |= {(pk, call.name) for call in calls if call.part in parts}
    events = defaultdict[UUID, list[JobEvent]](list)
    for event in JobEvent.objects.filter(job__in=jobs, kind__in=EVENTS).order_by("seq"):
        events[event.job_id].append(event)
    expected = expected_of_calls(collection) if collection else {}
    prices, clock, found = current_prices(), Clock(DIFF_SECONDS), []
    for job in jobs:
        key = job.checkpoint_id or 0, job.replayed_call
        new = list(_answers_in(events[job.pk], prices))
        answers = _compared(job, views.get(key), new, MAX_SHOWN_OF_CALLS // len(jobs), clock)
        found.append(ComparedCall(job, answers, key in can_fork, expected.get(key, "")))
    return found


def totals_of(calls: Sequence[ComparedCall]) -> list[ModelTotal]:
    """The totals of the recorded calls, then of each model, of the calls that a model has answered."""
    totals: dict[str, ModelTotal] = {"": ModelTotal("")}
    for one in calls:
        if one.answers.is_empty:
            continue
        for answer, column in one.answers.columns:
            model = answer.model if answer.attempt else ""
            totals.setdefault(model, ModelTotal(model)).add(answer, column)
    return list(totals.values())


def _recorded(view: CallView | None) -> ReplayedAnswer:
    if view is None:
        return ReplayedAnswer("", 0, None, None, 0, UNKNOWN, _("The recorded answer can no longer be read."))
    call = view.call
    error = call.error or ("" if call.answer else _("No answer is recorded"))
    return ReplayedAnswer(call.model, 0, call.answer, call.seconds, call.usage.tokens, view.cost, error)


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)

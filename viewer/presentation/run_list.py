"""Runs as lists show them, and what needs attention on the home page."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.core.paginator import Paginator
from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.expressions import OrderBy
from django.db.models.functions import Coalesce, Lower
from django.http import QueryDict
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from viewer.models import Annotation, Checkpoint, Job, Question, Run
from viewer.presentation import listing
from viewer.presentation.jobs.pages import ShownJob, retry_url, shown_job
from viewer.presentation.jobs.status import Wait, waiting
from viewer.records.annotations import annotations_of_runs, labelled, named, starred

# The table of runs on the home page and on pages of locations: filters, order, pages and rows.


# Which runs a list shows, and in which order. The address of the page holds both.


NEWEST_FIRST = "-updated"

# ``forked`` and ``starred`` are not statuses, but filter like them.
STATUSES: listing.Statuses = {
    "": _("All"),
    "waiting": _("Waiting"),
    "live": _("Live"),
    "failed": _("Failed"),
    "completed": _("Completed"),
    "forked": _("Forked"),
    "starred": _("Starred"),
}


def _status_order() -> Case:
    """The sort key of statuses: runs that need a person first, then running ones."""
    ranks = [Run.Status.WAITING, Run.Status.FAILED, Run.Status.UNFINISHED, "", Run.Status.COMPLETED]
    return Case(
        When(pk__in=asking_runs(), then=Value(0)),
        When(_is_live(), then=Value(1)),
        *(When(status=status, then=Value(2 + rank)) for rank, status in enumerate(ranks)),
        default=Value(9),
    )


# From left to right.
COLUMNS = (
    listing.Column("status", _("Status"), _status_order, starts_high=False, is_number=False),
    listing.Column("run", _("Run"), Lower(Coalesce("name", "key")), starts_high=False, is_number=False),
    listing.Column("location", _("Location"), "location__path", starts_high=False, is_number=False),
    listing.Column("started", _("Started"), "first_at"),
    listing.Column("updated", _("Updated"), "last_at"),
    listing.Column("duration", _("Duration"), "seconds"),
    listing.Column("tokens", _("Tokens"), "tokens"),
    listing.Column("cost", _("Cost"), "cost"),
    listing.Column("model", _("Model"), "model", starts_high=False, is_number=False),
    listing.Column("branches", _("Branches"), "branch_count"),
    listing.Column("checkpoints", _("Checkpoints"), "checkpoint_count"),
)


def filtered(runs: QuerySet[Run], wanted: listing.Filter) -> QuerySet[Run]:
    """Return the runs that match, in the order of the filter."""
    if wanted.query:
        renamed = named(Run.objects.all(), wanted.query).values("pk")
        found = Q(key__icontains=wanted.query) | Q(name__icontains=wanted.query) | Q(pk__in=renamed)
        runs = runs.filter(found)
    if wanted.label:
        runs = labelled(runs, wanted.label)
    return _with_status(runs, wanted.only).order_by(*_order(wanted.sort))


def _with_status(runs: QuerySet[Run], only: str) -> QuerySet[Run]:
    match only:
        case "waiting":
            return runs.filter(Q(status=Run.Status.WAITING) | Q(pk__in=asking_runs()))
        case "live":
            return runs.filter(_is_live()).exclude(pk__in=asking_runs())
        case "failed":
            return runs.filter(status=only).exclude(pk__in=running_runs()).exclude(Exists(_continuations()))
        case "completed":
            return runs.filter(status=only).exclude(pk__in=running_runs())
        case "starred":
            return starred(runs)
        case "forked":
            return runs.filter(Q(is_forked=True) | Q(branch_count__gt=1))
    return runs


def _order(sort: str) -> list[str | OrderBy]:
    """The sort expressions: its column with unknown values last, then the newest runs first."""
    by, newest = listing.order_of(COLUMNS, sort), F("last_at").desc(nulls_last=True)
    return [by, "-pk"] if sort.removeprefix("-") == "updated" else [by, newest, "-pk"]


def _is_live() -> Q:
    """Whether a job runs it, or another program writes it."""
    return Q(pk__in=running_runs()) | Q(pk__in=Run.objects.being_written().order_by().values("pk"))


def running_runs() -> QuerySet[Job, int]:
    """Return the primary keys of runs with a running job."""
    return Job.objects.under_way().filter(run__isnull=False).order_by().values_list("run", flat=True)


# The statuses of jobs that continue nothing.
_GIVEN_UP = (Job.Status.FAILED, Job.Status.INTERRUPTED, Job.Status.CANCELLED)


def _continuing() -> QuerySet[Job]:
    """Return the forks and resumes of the end of a branch, without those that failed or were cancelled."""
    jobs = Job.objects.filter(kind__in=(Job.Kind.FORK, Job.Kind.RESUME))
    ends = Q(checkpoint__is_branch_head=True) | Q(
        checkpoint__children__is_branch_head=True, created_at__gte=F("checkpoint__children__created_at")
    )
    return jobs.filter(ends).exclude(status__in=_GIVEN_UP)


def _continuations() -> QuerySet[Job]:
    """Return the jobs that continue the end of a branch of ``OuterRef("pk")``, newest first."""
    # A fork on another host has a run there.
    return _continuing().filter(checkpoint__run=OuterRef("pk")).order_by("-created_at")


def _continued_by(runs: Sequence[Run]) -> dict[int, Job]:
    """Return the job that continues each failed run, by the key of the run."""
    failed = Run.objects.filter(pk__in=[run.pk for run in runs if run.status == Run.Status.FAILED])
    newest = failed.annotate(job=Subquery(_continuations().values("pk")[:1])).exclude(job=None)
    found = dict(newest.values_list("pk", "job"))
    jobs = Job.objects.in_bulk(found.values())
    return {run: jobs[job] for run, job in found.items() if job in jobs}


def paused_runs() -> QuerySet[Run]:
    """Return the runs that wait for an answer while no job runs them."""
    waiting = Run.objects.top_level().filter(status=Run.Status.WAITING)
    return waiting.exclude(pk__in=asking_runs()).exclude(pk__in=running_runs()).select_related("location")


def asking_runs() -> QuerySet[Question, int]:
    """Return the keys of the runs that ask a question."""
    waiting = Question.objects.waiting().filter(job__run__isnull=False)
    return waiting.order_by().values_list("job__run", flat=True)


# The rows of a list of runs: their status, and what distinguishes runs of one name.


# Inputs of one row, and the newest runs whose inputs are compared.
MAX_INPUTS, MAX_COMPARED = 3, 2_000

LABELS: dict[str, str | Promise] = {
    "asking": _("waiting for you"),
    "waiting": _("waiting for an answer"),
    "running": _("running"),
    # Another program writes it.
    "live": _("live"),
    "failed": _("failed"),
    "completed": _("completed"),
    "cancelled": _("cancelled"),
    "interrupted": _("interrupted"),
    "unknown": _("end not recorded"),
    "unfinished": _("not finished"),
    # A run that is only listed: it neither waits nor has failed.
    "idle": _("idle"),
}


@dataclass(frozen=True, slots=True)
class RunInput:
    """An input in a row. A prompt has no name."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run of the list. ``inputs`` starts with those that distinguish it from runs with the same name."""

    run: Run
    status: str
    inputs: tuple[RunInput, ...]
    # The annotation of the run, or an empty one.
    annotation: Annotation
    # The job that continues it, if it failed.
    continued_by: Job | None = None

    @property
    def status_label(self) -> str:
        return str(LABELS[self.status])

    @property
    def all_inputs(self) -> str:
        """All inputs, one per line."""
        return "\n".join(f"{name}: {text}" if name else text for name, text in self.run.inputs)

    # A page has a hundred rows, and templates form a plural much more slowly.

    @property
    def tokens_label(self) -> str:
        return ngettext("token", "tokens", self.run.tokens)

    @property
    def branches_label(self) -> str:
        return ngettext("branch", "branches", self.run.branch_count)

    @property
    def checkpoints_label(self) -> str:
        return ngettext("checkpoint", "checkpoints", self.run.checkpoint_count)


def rows_of(runs: Sequence[Run]) -> list[RunRow]:
    """Return the row of each run, in a constant number of queries."""
    running, asking = set(running_runs()), set(asking_runs())
    live, not_annotated = _written_by_others(runs), Annotation()
    differing, annotations = _differing_inputs(runs), annotations_of_runs(runs)
    continued = _continued_by(runs) if any(run.status == Run.Status.FAILED for run in runs) else {}
    return [
        RunRow(
            run,
            status_of(run, running, asking, live),
            _inputs(run, differing[run.location_id, run.name]),
            annotations.get(run.pk, not_annotated),
            continued.get(run.pk),
        )
        for run in runs
    ]


def _written_by_others(runs: Sequence[Run]) -> set[int]:
    """Return the keys of those of these runs that another program writes now."""
    recent = [run.pk for run in runs if run.is_recent]
    if not recent:
        return set()
    return set(Run.objects.being_written().filter(pk__in=recent).values_list("pk", flat=True))


def status_of(run: Run, running: set[int], asking: set[int], live: set[int]) -> str:
    """Return the status of a run, as a key of LABELS."""
    if run.pk in asking:
        return "asking"
    if run.pk in running:
        return "running"
    if run.pk in live:
        return "live"
    if run.status:
        return run.status
    if run.head and not run.indexed_fingerprint:
        return "idle"
    is_decided = run.newest_status == "unknown" or (run.branch_count == 1 and run.newest_status in LABELS)
    return run.newest_status if is_decided else "unfinished"


def _differing_inputs(runs: Sequence[Run]) -> dict[tuple[int, str], set[str]]:
    """Return the names of inputs that differ among the runs of a name, by location and name."""
    locations, names = {run.location_id for run in runs}, {run.name for run in runs if run.name}
    others = Run.objects.top_level().filter(location__in=locations, name__in=names)
    values: dict[tuple[int, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    found = others.order_by("-last_at", "-pk").values_list("location", "name", "inputs")[:MAX_COMPARED]
    for location, run_name, inputs in found:
        for name, text in inputs:
            values[location, run_name][name].add(text)
    differing: dict[tuple[int, str], set[str]] = defaultdict(set)
    for key, inputs in values.items():
        differing[key] = {name for name, texts in inputs.items() if len(texts) > 1}
    return differing


def _inputs(run: Run, differing: set[str]) -> tuple[RunInput, ...]:
    """Return the inputs of a row: those that differ between runs, else the first ones."""
    inputs = [RunInput(name, text) for name, text in run.inputs]
    telling = [one for one in inputs if one.name in differing]
    return tuple((telling or inputs)[:MAX_INPUTS])


# One page of a list of runs, with the links of its headings and filters.


RUNS_A_PAGE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class RunListPage(listing.Listing[Run]):
    """A page of the list."""

    rows: list[RunRow]
    shows_location: bool

    @property
    def has_live_rows(self) -> bool:
        """Whether a row stops being live without a change of its location."""
        return any(row.status == "live" for row in self.rows)


def run_list(runs: QuerySet[Run], address: QueryDict, *, shows_location: bool) -> RunListPage:
    """Return the page of these runs for the query of an address."""
    wanted = listing.filter_in(address, STATUSES, COLUMNS, NEWEST_FIRST)
    found = filtered(runs, wanted)
    if shows_location:
        found = found.select_related("location")
    page = Paginator(found, RUNS_A_PAGE).get_page(address.get("page"))
    shown = [column for column in COLUMNS if shows_location or column.key != "location"]
    return RunListPage(
        rows=rows_of(list(page.object_list)),
        page=page,
        filter=wanted,
        headings=listing.headings(shown, wanted.sort, address),
        choices=listing.choices(STATUSES, wanted.only, address),
        shows_location=shows_location,
    )


# The part of the home page above the runs: what needs a person, what runs, and what failed.


# Maximum entries of each part. A link leads to the others.
MAX_SHOWN = 3
# Retries are searched among this many of the newest jobs.
MAX_JOBS = 500


@dataclass(frozen=True, slots=True)
class RecentFailure:
    """A run or job that failed and was not retried.

    ``checkpoint`` is the failed checkpoint, if there is one; ``retry_url`` is empty if it cannot be retried.
    """

    run: Run | None
    job: Job | None
    checkpoint: Checkpoint | None
    retry_url: str = ""

    @property
    def location_id(self) -> int:
        """The key of its location."""
        row = self.run or self.job
        assert row
        return row.location_id


@dataclass(frozen=True, slots=True)
class Attention:
    """What needs a person, what runs, and what failed, each with its total number."""

    questions: list[Question]
    missed: list[Wait]
    waiting_runs: list[Run]
    need_count: int
    jobs: list[ShownJob]
    queued: list[Wait]
    queued_count: int
    running_count: int
    failures: list[RecentFailure]
    failure_count: int


def attention() -> Attention:
    """Return the entries and totals of all three parts."""
    asking = Question.objects.waiting().select_related("job__run", "job__location").order_by("asked_at")
    questions, question_count = _first_and_count(asking)
    queued = [wait for wait in waiting() if wait.job.status == Job.Status.QUEUED]
    missed = [wait for wait in queued if wait.needs_a_person]
    others = [wait for wait in queued if not wait.needs_a_person]
    paused, paused_count = _first_and_count(paused_runs())
    under_way = Job.objects.under_way().select_related("run", "location").order_by("created_at")
    without_questions = under_way.exclude(pk__in=Question.objects.waiting().values("job"))
    running, running_count = _first_and_count(without_questions)
    failures, failure_count = _failures()
    return Attention(
        questions=questions,
        missed=missed[:MAX_SHOWN],
        waiting_runs=paused,
        need_count=question_count + len(missed) + paused_count,
        jobs=[shown_job(job) for job in running],
        queued=others[:MAX_SHOWN],
        queued_count=len(others),
        running_count=running_count,
        failures=failures,
        failure_count=failure_count,
    )


def _first_and_count(rows: QuerySet[listing.M]) -> tuple[list[listing.M], int]:
    """Return the first MAX_SHOWN of these rows and the number of all. Few rows take one query."""
    first = list(rows[: MAX_SHOWN + 1])
    return first[:MAX_SHOWN], len(first) if len(first) <= MAX_SHOWN else rows.count()


def _failures() -> tuple[list[RecentFailure], int]:
    """Return the newest failures, newest first, and their total number."""
    runs_of_jobs = _failed_jobs()
    newest = {run: pk for pk, run in reversed(runs_of_jobs.items()) if run}
    failed = _with_status(Run.objects.top_level(), "failed")
    runs, count = _first_and_count(failed.select_related("location"))
    last = _last_checkpoints(runs) if runs else {}
    listed = set(failed.filter(pk__in=newest).order_by().values_list("pk", flat=True)) if newest else set()
    others = [pk for pk, run in runs_of_jobs.items() if run not in listed]
    of_runs = {run.pk: newest[run.pk] for run in runs if run.pk in newest}
    jobs = _jobs_with_rows([*of_runs.values(), *others[:MAX_SHOWN]])
    found = [
        (run.last_at, RecentFailure(run, job, last.get(run.pk), retry_url(job) if job else ""))
        for run in runs
        for job in [jobs.get(of_runs.get(run.pk))]
    ]
    found += [
        (job.ended_at, RecentFailure(job.run, job, None, retry_url(job)))
        for pk in others[:MAX_SHOWN]
        if (job := jobs.get(pk))
    ]
    found.sort(key=lambda pair: pair[0].timestamp() if pair[0] else 0, reverse=True)
    return [failure for _at, failure in found[:MAX_SHOWN]], count + len(others)


def _failed_jobs() -> dict[UUID, int | None]:
    """Return the failed jobs that no later job has repeated or continued, newest first, with their runs."""
    # Without their requests and other rows, which are large.
    columns = ("pk", "status", "kind", "location", "run", "branch", "request__entry_point")
    of_checkpoint = ("checkpoint", "checkpoint__run", "checkpoint__recorded_branch")
    jobs = list(Job.objects.order_by("-created_at").values(*columns, *of_checkpoint)[:MAX_JOBS])
    repeated, continued, found = set(), set(), dict[UUID, int | None]()
    continuing = _continuing().filter(pk__in=[job["pk"] for job in jobs]) if jobs else Job.objects.none()
    continuing_pks = set(continuing.values_list("pk", flat=True))
    for job in jobs:
        # A checkpoint may be forked again on another host.
        start = job["checkpoint"], None if job["checkpoint"] else job["location"]
        same = (*start, job["kind"], str(job["request__entry_point"] or ""))
        is_done = same in repeated or (job["run"], job["branch"]) in continued
        if not is_done and job["status"] in (Job.Status.FAILED, Job.Status.INTERRUPTED):
            found[job["pk"]] = job["run"]
        repeated.add(same)
        # A resume writes to its branch, of which its checkpoint is not the end any more.
        is_resume = job["kind"] == Job.Kind.RESUME and job["status"] not in _GIVEN_UP
        if job["checkpoint"] and (is_resume or job["pk"] in continuing_pks):
            continued.add((job["checkpoint__run"], job["checkpoint__recorded_branch"]))
    return found


def _jobs_with_rows(pks: Sequence[UUID]) -> dict[UUID | None, Job]:
    """Return these jobs, with the rows that their entries show."""
    jobs = Job.objects.select_related("run", "location", "checkpoint", "project")
    return {job.pk: job for job in jobs.filter(pk__in=pks)} if pks else {}


def _last_checkpoints(runs: Iterable[Run]) -> dict[int, Checkpoint]:
    """Return the newest checkpoint of each run, by the key of the run."""
    heads = Checkpoint.objects.filter(run__in=[run.pk for run in runs], is_branch_head=True)
    return {head.run_id: head for head in heads.select_related("run").order_by("row")}

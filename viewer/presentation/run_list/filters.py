"""Which runs a list shows, and in which order. The address of the page holds both."""

from django.db.models import Case, F, Q, QuerySet, Value, When
from django.db.models.expressions import OrderBy
from django.db.models.functions import Coalesce, Lower
from django.utils.translation import gettext_lazy as _

from viewer.annotations import labelled, named, starred
from viewer.models import Job, Question, Run
from viewer.presentation.listing import Column, Filter, Statuses, order_of

NEWEST_FIRST = "-updated"

# ``forked`` and ``starred`` are not statuses, but filter like them.
STATUSES: Statuses = {
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


def columns() -> list[Column]:
    """Return the columns, from left to right."""
    return [
        Column("status", _("Status"), _status_order(), starts_high=False, is_number=False),
        Column("run", _("Run"), Lower(Coalesce("name", "key")), starts_high=False, is_number=False),
        Column("location", _("Location"), "location__path", starts_high=False, is_number=False),
        Column("started", _("Started"), "first_at"),
        Column("updated", _("Updated"), "last_at"),
        Column("duration", _("Duration"), "seconds"),
        Column("tokens", _("Tokens"), "tokens"),
        Column("cost", _("Cost"), "cost"),
        Column("model", _("Model"), "model", starts_high=False, is_number=False),
        Column("branches", _("Branches"), "branch_count"),
        Column("checkpoints", _("Checkpoints"), "checkpoint_count"),
    ]


def filtered(runs: QuerySet[Run], wanted: Filter) -> QuerySet[Run]:
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
        case "failed" | "completed":
            return runs.filter(status=only).exclude(pk__in=running_runs())
        case "starred":
            return starred(runs)
        case "forked":
            return runs.filter(Q(is_forked=True) | Q(branch_count__gt=1))
    return runs


def _order(sort: str) -> list[str | OrderBy]:
    """The sort expressions: its column with unknown values last, then the newest runs first."""
    by, newest = order_of(columns(), sort), F("last_at").desc(nulls_last=True)
    return [by, "-pk"] if sort.removeprefix("-") == "updated" else [by, newest, "-pk"]


def _is_live() -> Q:
    """Whether a job runs it, or another program writes it."""
    return Q(pk__in=running_runs()) | Q(pk__in=Run.objects.being_written().order_by().values("pk"))


def running_runs() -> QuerySet[Job, int]:
    """Return the primary keys of runs with a running job."""
    return Job.objects.under_way().filter(run__isnull=False).order_by().values_list("run", flat=True)


def paused_runs() -> QuerySet[Run]:
    """Return the runs that wait for an answer while no job runs them."""
    waiting = Run.objects.top_level().filter(status=Run.Status.WAITING)
    return waiting.exclude(pk__in=asking_runs()).exclude(pk__in=running_runs()).select_related("location")


def asking_runs() -> QuerySet[Question, int]:
    """Return the keys of the runs that ask a question."""
    waiting = Question.objects.waiting().filter(job__run__isnull=False)
    return waiting.order_by().values_list("job__run", flat=True)

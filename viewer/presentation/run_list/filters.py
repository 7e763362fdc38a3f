"""Which runs a list shows, and in which order. The address of the page holds both."""

from dataclasses import dataclass

from django.db.models import Case, F, Q, QuerySet, Value, When
from django.db.models.expressions import OrderBy
from django.db.models.functions import Coalesce, Lower
from django.http import QueryDict
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from viewer.annotations import labelled, named, starred
from viewer.models import Job, Question, Run
from viewer.presentation.listing import MAX_QUERY, Column, known_sort, order_of

NEWEST_FIRST = "-updated"

# By the value in the address. ``forked`` and ``starred`` are not statuses, but filter like them.
STATUSES: dict[str, str | Promise] = {
    "": _("All"),
    "waiting": _("Waiting"),
    "running": _("Running"),
    "failed": _("Failed"),
    "completed": _("Completed"),
    "forked": _("Forked"),
    "starred": _("Starred"),
}


def _status_order() -> Case:
    """The sort key of statuses: runs that need a person first, then running ones."""
    ranks = [Run.Status.WAITING, Run.Status.FAILED, "", Run.Status.COMPLETED]
    return Case(
        When(pk__in=asking_runs(), then=Value(0)),
        When(pk__in=running_runs(), then=Value(1)),
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


@dataclass(frozen=True, slots=True)
class RunFilter:
    """The filter in the address of a list. Unknown values are ignored."""

    only: str = ""
    query: str = ""
    label: str = ""
    sort: str = NEWEST_FIRST

    @property
    def is_narrow(self) -> bool:
        """Whether it excludes any runs."""
        return bool(self.only or self.query or self.label)

    def apply(self, runs: QuerySet[Run]) -> QuerySet[Run]:
        """Return the runs that match, in the order of the filter."""
        if self.query:
            own = named(Run.objects.all(), self.query).values("pk")
            found = Q(key__icontains=self.query) | Q(name__icontains=self.query) | Q(pk__in=own)
            runs = runs.filter(found)
        if self.label:
            runs = labelled(runs, self.label)
        return self._with_status(runs).order_by(*self._order())

    def _with_status(self, runs: QuerySet[Run]) -> QuerySet[Run]:
        match self.only:
            case "waiting":
                return runs.filter(Q(status=Run.Status.WAITING) | Q(pk__in=asking_runs()))
            case "running":
                return runs.filter(pk__in=running_runs()).exclude(pk__in=asking_runs())
            case "failed" | "completed":
                return runs.filter(status=self.only).exclude(pk__in=running_runs())
            case "starred":
                return starred(runs)
            case "forked":
                return runs.filter(Q(is_forked=True) | Q(branch_count__gt=1))
        return runs

    def _order(self) -> list[str | OrderBy]:
        """The sort expressions: its column with unknown values last, then the newest runs first."""
        by, newest = order_of(columns(), self.sort), F("last_at").desc(nulls_last=True)
        return [by, "-pk"] if self.sort.removeprefix("-") == "updated" else [by, newest, "-pk"]


def filter_in(address: QueryDict) -> RunFilter:
    """Return the filter of an address."""
    only, sort, query, label = (str(address.get(name, "")) for name in ("only", "sort", "q", "label"))
    return RunFilter(
        only=only if only in STATUSES else "",
        query=query.strip()[:MAX_QUERY],
        label=label[:MAX_QUERY],
        sort=known_sort(sort, columns(), NEWEST_FIRST),
    )


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

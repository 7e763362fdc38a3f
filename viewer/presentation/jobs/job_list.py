"""The table of jobs. The address of the page holds its filter, order and page number."""

from django.core.paginator import Paginator
from django.db.models import DurationField, Exists, ExpressionWrapper, F, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce, Lower, Now
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from viewer.models import Job, Question, uuid_of
from viewer.presentation.listing import Column, Listing, Statuses, choices, filter_in, headings, order_of

JOBS_A_PAGE = 50
NEWEST_FIRST = "-requested"
# ``waiting`` jobs wait for a person, not for their start.
STATUSES: Statuses = {
    "": _("All"),
    "waiting": _("Waiting"),
    "queued": _("Queued"),
    "running": _("Running"),
    "failed": _("Failed"),
    "completed": _("Completed"),
    "cancelled": _("Cancelled"),
}
_DURATION = ExpressionWrapper(Coalesce("ended_at", Now()) - F("started_at"), output_field=DurationField())
COLUMNS = (
    Column("job", _("Job"), Lower("branch"), starts_high=False, is_number=False),
    Column("status", _("Status"), "status", starts_high=False, is_number=False),
    Column("run", _("Run"), Lower(Coalesce("run__name", "run__key")), starts_high=False, is_number=False),
    Column("person", _("Requested by"), "requested_by__username", starts_high=False, is_number=False),
    Column("requested", _("Requested"), "created_at"),
    Column("duration", _("Duration"), _DURATION),
    Column("tokens", _("Tokens"), "tokens"),
    Column("cost", _("Cost"), "cost"),
)


def job_list(address: QueryDict) -> Listing[Job]:
    """Return the page of jobs for an address. ``asks`` of a job says whether it waits for an answer."""
    wanted = filter_in(address, STATUSES, COLUMNS, NEWEST_FIRST)
    jobs = Job.objects.select_related("run", "location", "requested_by").annotate(asks=_asks())
    found = _with_status(_matching(jobs, wanted.query), wanted.only)
    found = found.order_by(order_of(COLUMNS, wanted.sort), "-created_at", "-pk")
    return Listing(
        page=Paginator(found, JOBS_A_PAGE).get_page(address.get("page")),
        filter=wanted,
        headings=headings(COLUMNS, wanted.sort, address),
        choices=choices(STATUSES, wanted.only, address),
    )


def _asks() -> Exists:
    """Return the condition for jobs that wait for an answer."""
    return Exists(Question.objects.waiting().filter(job=OuterRef("pk")))


def _matching(jobs: QuerySet[Job], query: str) -> QuerySet[Job]:
    """Return the jobs whose branch, run, entry point, person or ID matches."""
    if not query:
        return jobs
    fields = ("branch", "variation", "run__name", "run__key", "requested_by__username", "request__name")
    found = Q(*((f"{field}__icontains", query) for field in fields), _connector=Q.OR)
    uid = uuid_of(query)
    return jobs.filter(found | Q(pk=uid) if uid else found)


def _with_status(jobs: QuerySet[Job], only: str) -> QuerySet[Job]:
    match only:
        case "waiting":
            at_breakpoint = Q(status__in=Job.ENDED) & ~Q(stopped_before=[])
            return jobs.filter(Q(_asks()) | at_breakpoint)
        case "queued" | "cancelled":
            return jobs.filter(status=only)
        case "running":
            return jobs.filter(~_asks(), status__in=(Job.Status.STARTING, Job.Status.RUNNING))
        case "failed":
            return jobs.filter(status__in=(Job.Status.FAILED, Job.Status.INTERRUPTED))
        case "completed":
            return jobs.filter(status=Job.Status.SUCCEEDED, stopped_before=[])
    return jobs

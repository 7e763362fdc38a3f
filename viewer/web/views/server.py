"""The home page with its trends, and pages about the server: hosts, health, metrics and stored data."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path
from statistics import median

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.core.paginator import Paginator
from django.db import DatabaseError
from django.db.models import Count, F, Min, Q, Sum
from django.db.models.functions import Coalesce
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST, require_safe
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from viewer import redaction
from viewer.data_folder.permissions import problem_while_served
from viewer.formats import count_text, duration, moment_text, money
from viewer.host_requests import ListDrafts, PrepareImport, ReadSizes, ask
from viewer.messages.message import PLAIN_TEXT
from viewer.messages.translation import translate
from viewer.models import Host, Job, Location, Project, Right, Run
from viewer.presentation.hosts import hosts_if_several, in_use_text, shown_hosts
from viewer.presentation.listing import locations_at_home
from viewer.presentation.run_list import attention, run_list
from viewer.records.hosts import chosen_host, drain, remove_unused
from viewer.records.locations import drafts_of
from viewer.records.permissions import requires
from viewer.web.live.consumer import connected
from viewer.web.live.feeds import home_state
from viewer.web.views.locations import adding_context

# The home page: what needs a person, what runs, what failed, and every run.


@requires(Right.VIEW)
@require_GET
def home(request: HttpRequest) -> HttpResponse:
    """Show the page, or return only its contents to a page that refreshes."""
    ask(PrepareImport())
    locations = locations_at_home()
    context = {
        "attention": attention(),
        "overview": overview(),
        "locations": locations,
        "runs": run_list(Run.objects.top_level(), request.GET, shows_location=True),
        "state": home_state(),
    }
    if not locations.count:
        context |= adding_context(request)
    part = request.headers.get("HX-Target") == "home-contents"
    return render(request, f"home/{'_contents' if part else 'page'}.html", context)


# The trends of the home page: what runs of the last days used, day by day, and why they failed.
#
# Only the newest rows are read, so a page takes the same time with any number of them.


MAX_DAYS = 30
# The runs and jobs that are read. With more runs, fewer days are shown, each with all of its runs.
MAX_RUNS, MAX_JOBS = 2_000, 500
MAX_REASONS = 5
# The characters of a reason.
MAX_REASON_TEXT = 300


@dataclass(frozen=True, slots=True)
class Bar:
    """A day of a trend, as percentages of its drawing."""

    x: float
    width: float
    height: float
    title: str

    @property
    def y(self) -> float:
        return 100 - self.height


@dataclass(frozen=True, slots=True)
class Trend:
    """A measure of the runs: its total, or median, of all days and of each, the oldest day first."""

    label: str
    total: str
    bars: Sequence[Bar]


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason for which jobs or runs failed. ``newest`` is the newest of them.

    ``source`` is their project, or the location of runs without one.
    """

    source: Project | Location | None
    text: str
    count: int
    newest: Job | Run


@dataclass(frozen=True, slots=True)
class Overview:
    """The last ``days``. Without a run or a failure in them, there is nothing to show."""

    days: int
    trends: Sequence[Trend]
    reasons: Sequence[Reason]

    def __bool__(self) -> bool:
        return bool(self.trends or self.reasons)


def overview() -> Overview:
    """Return the trends and the reasons of the last days, in two queries; in five if runs have failed."""
    today = timezone.localdate()
    first = today - timedelta(days=MAX_DAYS - 1)
    # A checkpoint may say that it is from the future.
    recent = (timezone.now() - timedelta(days=MAX_DAYS), timezone.now() + timedelta(days=1))
    newest = Run.objects.top_level().filter(last_at__range=recent)
    columns = ("last_at", "cost", "tokens", "seconds", "pk", "status", "location")
    rows = list(newest.order_by("-last_at", "-pk").values_list(*columns)[:MAX_RUNS])
    if len(rows) == MAX_RUNS:
        # The oldest day may lack runs. At least today is shown.
        first = min(max(first, timezone.localdate(rows[-1][0]) + timedelta(days=1)), today)
    days = [first + timedelta(days=number) for number in range((today - first).days + 1)]
    costs, tokens, seconds = (defaultdict[date, list[float]](list) for _name in range(3))
    for last_at, cost, used, took, *_others in rows:
        for by_day, value in ((costs, cost), (tokens, used), (seconds, took)):
            if value:
                by_day[timezone.localdate(last_at)].append(value)
    trends = [
        _trend(_("Cost"), days, costs, sum, money),
        _trend(_("Tokens"), days, tokens, sum, count_text),
        _trend(_("Median duration"), days, seconds, median, duration),
    ]
    failed = {pk: location for *_columns, pk, status, location in rows if status == Run.Status.FAILED}
    reasons = sorted([*_reasons_of_jobs(), *_reasons_of_runs(failed)], key=lambda reason: -reason.count)
    return Overview(len(days), [one for one in trends if one], reasons[:MAX_REASONS])


def _trend(
    label: str,
    days: Sequence[date],
    by_day: dict[date, list[float]],
    total_of: Callable[[Sequence[float]], float],
    text_of: Callable[[float], str],
) -> Trend | None:
    """Return the trend of a measure; None if no run of these days has it."""
    values = {day: total_of(by_day[day]) for day in days if by_day.get(day)}
    if not values:
        return None
    highest, width = max(values.values()), 100 / len(days)
    bars = [
        Bar(number * width, width * 0.8, 100 * value / highest, f"{_day_text(day)}: {text_of(value)}")
        for number, day in enumerate(days)
        if (value := values.get(day))
    ]
    return Trend(label, text_of(total_of([value for day in days for value in by_day.get(day, ())])), bars)


def _day_text(day: date) -> str:
    return moment_text(timezone.make_aware(datetime.combine(day, time())), "day")


# The statuses of jobs that failed.
_FAILED = (Job.Status.FAILED, Job.Status.INTERRUPTED)


def _reasons_of_jobs() -> list[Reason]:
    """Return why jobs failed, by project."""
    failed = Job.objects.filter(status__in=_FAILED, ended_at__gte=timezone.now() - timedelta(days=MAX_DAYS))
    newest = failed.select_related("project").only("pk", "error", "project__folder").order_by("-ended_at")
    jobs = defaultdict[tuple[Project | None, str], list[Job]](list)
    for job in newest[:MAX_JOBS]:
        jobs[job.project, _kind_of_error(job)].append(job)
    return [
        Reason(project, _error_text(some[0]), len(some), some[0])
        for (project, _kind_of), some in jobs.items()
    ]


def _reasons_of_runs(failed: Mapping[int, int]) -> list[Reason]:
    """Return how many of these runs no failed or cancelled job has written, by project or location.

    They are newest first, with the keys of their locations. Only their checkpoints say why they failed.
    """
    if not failed:
        return []
    # LangGraph stores an error of each task that was cancelled.
    ended = Job.objects.filter(run__in=failed, status__in=(*_FAILED, Job.Status.CANCELLED))
    of_jobs = set(ended.values_list("run", flat=True))
    locations = Location.objects.select_related("project").in_bulk(set(failed.values()))
    runs = defaultdict[Project | Location, list[int]](list)
    for pk, location in failed.items():
        if pk not in of_jobs and (found := locations.get(location)):
            runs[found.project or found].append(pk)
    most = sorted(runs.items(), key=lambda some: -len(some[1]))[:MAX_REASONS]
    newest = Run.objects.select_related("location").in_bulk([some[0] for _source, some in most])
    text = _("Failed in another program")
    return [Reason(source, text, len(some), newest[some[0]]) for source, some in most if some[0] in newest]


def _kind_of_error(job: Job) -> str:
    """What errors of one kind share: their code, or what precedes the first colon, as an exception's name."""
    if job.error is None or job.error.code != PLAIN_TEXT:
        return job.error.code if job.error else ""
    return _error_text(job).partition(":")[0]


def _error_text(job: Job) -> str:
    lines = translate(job.error).strip().splitlines() if job.error else []
    return lines[0][:MAX_REASON_TEXT] if lines else _("No reason was recorded.")


# Hosts: their heartbeats, load, jobs and versions, and draining one before maintenance.


@requires(Right.VIEW, everywhere=True)
@require_GET
def hosts(request: HttpRequest) -> HttpResponse:
    """Show all hosts, or return only the table to a page that refreshes."""
    part = request.headers.get("HX-Target") == "hosts"
    return render(request, f"hosts/{'_list' if part else 'page'}.html", {"hosts": shown_hosts()})


@requires(Right.HOSTS, everywhere=True)
@require_POST
def drain_host(request: HttpRequest, pk: int) -> HttpResponse:
    """Have a host take no new jobs, or take jobs again."""
    host = get_object_or_404(Host, pk=pk)
    drain(host, is_drained=request.POST.get("drained") == "yes")
    if host.is_drained:
        text = _("%(host)s takes no new jobs. Those that run continue; others wait.")
    else:
        text = _("%(host)s takes jobs.")
    messages.success(request, text % {"host": host.name})
    return redirect("hosts")


@requires(Right.HOSTS, everywhere=True)
@require_POST
def remove_host(request: HttpRequest, pk: int) -> HttpResponse:
    """Remove a host that is away and has nothing."""
    host = get_object_or_404(Host, pk=pk)
    if remove_unused(host):
        messages.success(request, _("Removed %(path)s.") % {"path": host.name})
    else:
        messages.error(request, in_use_text(host))
    return redirect("hosts")


# A health check for monitoring programs.


logger = logging.getLogger(__name__)


@login_not_required
@require_safe
def health(request: HttpRequest) -> HttpResponse:
    """Return 200 and "ok" if the database answers, else 503 and "unavailable"."""
    problem = problem_while_served()
    try:
        if not problem:
            Location.objects.exists()
    except DatabaseError as error:
        problem = str(error)
    if problem:
        logger.error("not healthy: %s", problem)
    text = "unavailable" if problem else "ok"
    return HttpResponse(f"{text}\n", content_type="text/plain", status=503 if problem else 200)


# Metrics for Prometheus: counters of this web process, and numbers that are read from rows.
#
# No label names a location, a run, a person or a path. Each web process reports its own counters; what is
# read from rows is the same in all of them.


@login_not_required
@require_safe
def show_metrics(request: HttpRequest) -> HttpResponse:
    """Return the metrics to a client that sends the token. Without METRICS_TOKEN, there is no such page."""
    if not settings.METRICS_TOKEN:
        raise Http404
    if not constant_time_compare(
        request.headers.get("Authorization", ""), f"Bearer {settings.METRICS_TOKEN}"
    ):
        refused = HttpResponse("The token is wrong.\n", content_type="text/plain", status=401)
        refused["WWW-Authenticate"] = "Bearer"
        return refused
    if problem := problem_while_served():
        return HttpResponse(f"{problem}\n", content_type="text/plain", status=503)
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


disable_created_metrics()  # type: ignore[no-untyped-call]
registry = CollectorRegistry()
ProcessCollector(registry=registry)
answered_requests = Counter(
    "forkline_requests",
    "Requests that this web process has answered, by the name of the route; without a route, none.",
    ["route", "status"],
    registry=registry,
)
open_sockets = Gauge("forkline_sockets", "Sockets of open pages in this web process.", registry=registry)
open_sockets.set_function(lambda: len(connected))


def count_request(request: HttpRequest, response: HttpResponseBase) -> None:
    """Count an answered request."""
    route = request.resolver_match.url_name if request.resolver_match else None
    answered_requests.labels(route or "none", response.status_code).inc()


class RowMetrics(Collector):
    """What rows say, with a constant number of queries."""

    def describe(self) -> list[Metric]:
        """Return nothing: registering the collector reads no rows."""
        return []

    def collect(self) -> Iterator[Metric]:
        yield from job_metrics()
        yield from import_metrics()
        counts = Host.objects.aggregate(
            all=Count("pk"), live=Count("pk", filter=Q(pk__in=Host.objects.live()))
        )
        family = GaugeMetricFamily("forkline_hosts", "Hosts, by whether they answer.", labels=["state"])
        family.add_metric(["answering"], counts["live"])
        family.add_metric(["away"], counts["all"] - counts["live"])
        yield family


class RedactionMetrics(Collector):
    """The secrets that this process has hidden."""

    def collect(self) -> Iterator[Metric]:
        family = Metric(
            "forkline_redactions",
            "Secrets that this web process has hidden in what it shows, stores and logs.",
            "counter",
        )
        family.add_sample("forkline_redactions_total", {}, redaction.hidden.count)
        yield family


registry.register(RowMetrics())
registry.register(RedactionMetrics())


def job_metrics() -> Iterator[Metric]:
    """Yield the number of jobs by status, and the age of the one that has been due for the longest time."""
    counts = dict(Job.objects.order_by().values_list("status").annotate(Count("pk")))
    jobs = GaugeMetricFamily("forkline_jobs", "Jobs, by status.", labels=["status"])
    for status in Job.Status.values:
        jobs.add_metric([status], counts.get(status, 0))
    yield jobs
    oldest = Job.objects.due().aggregate(at=Min(Coalesce("became_due_at", "created_at")))["at"]
    yield GaugeMetricFamily(
        "forkline_oldest_queued_job_seconds",
        "Time that the oldest queued job has waited since it was due, in seconds; 0 if none waits.",
        value=seconds_since(oldest),
    )


def import_metrics() -> Iterator[Metric]:
    """Yield how far imports are behind, and the locations that cannot be read."""
    found = Location.objects.aggregate(
        oldest=Min(Coalesce("imported_at", "added_at")),
        left=Sum(F("import_total") - F("import_done"), filter=Q(import_total__gt=F("import_done"))),
        unreadable=Count("pk", filter=Q(read_error__isnull=False)),
    )
    yield GaugeMetricFamily(
        "forkline_import_lag_seconds",
        "Time since the location that was synced longest ago was synced, in seconds; 0 without a location.",
        value=seconds_since(found["oldest"]),
    )
    yield GaugeMetricFamily(
        "forkline_import_checkpoints_left",
        "Checkpoints that long imports have yet to store.",
        value=found["left"] or 0,
    )
    yield GaugeMetricFamily(
        "forkline_unreadable_locations",
        "Locations that the last import could not read.",
        value=found["unreadable"],
    )


def seconds_since(at: datetime | None) -> float:
    """Return the seconds since a time; 0 if there is none, or if clocks differ."""
    return max(0.0, (timezone.now() - at).total_seconds()) if at else 0.0


# A notice that an administrator shows on every page: the first line of the file NOTICE_FILE.


MAX_NOTICE_BYTES = 2_000


@requires(Right.VIEW)
@require_GET
def show_site_notice(request: HttpRequest) -> HttpResponse:
    """Return the part of a page that shows the notice, for an open page."""
    return render(request, "components/_site_notice.html")


def notice_context(request: HttpRequest) -> dict[str, str | bool]:
    """Return the notice for every template, and whether there may be one."""
    return {"site_notice": _notice(), "has_site_notices": bool(settings.NOTICE_FILE)}


def _notice() -> str:
    if not settings.NOTICE_FILE:
        return ""
    try:
        with Path(settings.NOTICE_FILE).open("rb") as file:
            first = file.read(MAX_NOTICE_BYTES).decode("utf-8", "replace").strip().partition("\n")[0]
    except OSError:
        return ""
    return "".join(character for character in first if character.isprintable())


# What Forkline stores itself.


DRAFTS_A_PAGE = 50


@requires(Right.VIEW, everywhere=True)
@require_GET
def show_stored_data(request: HttpRequest) -> HttpResponse:
    """Show the sizes of what the data folder holds, and each draft."""
    host = chosen_host(request.GET.get("host"))
    key = host.pk if host else None
    page = Paginator(ask(ListDrafts(), host=key), DRAFTS_A_PAGE).get_page(request.GET.get("page"))
    context = {
        "hosts": hosts_if_several(),
        "chosen": host,
        "sizes": list(ask(ReadSizes(), host=key)),
        "page": page,
        "drafts": drafts_of(list(page)),
        "scratch_days": settings.SCRATCH_DAYS,
        "now": timezone.now(),
    }
    return render(request, "stored_data/page.html", context)

"""Metrics for Prometheus: counters of this web process, and numbers that are read from rows.

No label names a location, a run, a person or a path. Each web process reports its own counters; what is
read from rows is the same in all of them.
"""

from collections.abc import Iterator
from datetime import datetime

from django.db.models import Count, F, Min, Q, Sum
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from viewer import redaction
from viewer.models import Host, Job, Location
from viewer.web.live.consumer import connected

disable_created_metrics()  # type: ignore[no-untyped-call]
registry = CollectorRegistry()
ProcessCollector(registry=registry)
requests = Counter(
    "forkline_requests",
    "Requests that this web process has answered, by the name of the route; without a route, none.",
    ["route", "status"],
    registry=registry,
)
sockets = Gauge("forkline_sockets", "Sockets of open pages in this web process.", registry=registry)
sockets.set_function(lambda: len(connected))


def count_request(request: HttpRequest, response: HttpResponseBase) -> None:
    """Count an answered request."""
    route = request.resolver_match.url_name if request.resolver_match else None
    requests.labels(route or "none", response.status_code).inc()


class RowMetrics(Collector):
    """What rows say, with a constant number of queries."""

    def describe(self) -> list[Metric]:
        """Return nothing: registering the collector reads no rows."""
        return []

    def collect(self) -> Iterator[Metric]:
        yield from job_metrics()
        yield from import_metrics()
        hosts = Host.objects.aggregate(
            all=Count("pk"), live=Count("pk", filter=Q(pk__in=Host.objects.live()))
        )
        family = GaugeMetricFamily("forkline_hosts", "Hosts, by whether they answer.", labels=["state"])
        family.add_metric(["answering"], hosts["live"])
        family.add_metric(["away"], hosts["all"] - hosts["live"])
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

"""Limits on jobs, their usage, and which limit is reached.

A step is a completed unit, such as a task. Seconds are the time that a job ran, without the time that it
waited for a person. The seconds of several jobs are added up, even if they ran at the same time. A day
begins at the server's midnight, and includes what jobs that started earlier have used since then.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q, QuerySet, Subquery
from django.utils import timezone

from viewer.engines import unit_events
from viewer.models import DayLimits, Job, JobEvent, Question
from viewer.models.jobs import MEASURES

# The events that are counted.
TOKEN_EVENTS = ("model_completed", "cache_warmed")
# What a limit may belong to.
OWNERS = ("job", "sweep", "project", "day")


def positive_integer(value: Any) -> int:
    """The value of an event if it is a positive integer, else 0: a runner may have written anything."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


@dataclass(frozen=True, slots=True)
class Limit:
    """An upper bound. ``whose`` is one of OWNERS; ``measure`` is one of MEASURES."""

    whose: str
    measure: str
    max_amount: float


def limit_in(plain: object) -> Limit | None:
    """The limit from plain data, or None if the data does not describe a limit."""
    match plain:
        case {"whose": str(whose), "measure": str(measure), "max_amount": int() | float() as max_amount}:
            is_known = whose in OWNERS and measure in MEASURES and abs(max_amount) < math.inf
            return Limit(whose, measure, max_amount) if is_known else None
    return None


def limits_in(whose: str, limits: Mapping[str, Any] | None) -> list[Limit]:
    """The limits in a row's field."""
    return [Limit(whose, measure, limits[measure]) for measure in MEASURES if limits and measure in limits]


def shared_limits(job: Job) -> list[Limit]:
    """The current limits that the job shares with other jobs."""
    current = Subquery(DayLimits.objects.values("limits")[:1])
    rows = Job.objects.filter(pk=job.pk).values_list("sweep__limits", "project__limits", current)
    of_sweep, of_project, of_day = rows.first() or ({}, {}, {})
    return [
        *limits_in("sweep", of_sweep),
        *limits_in("project", of_project),
        *limits_in("day", of_day),
    ]


def reached_shared_limit(job: Job) -> Limit | None:
    """The first shared limit that is used up, or None."""
    used: dict[str, dict[str, float]] = {}
    for limit in shared_limits(job):
        if limit.whose not in used:
            used[limit.whose] = shared_usage(limit.whose, job)
        if used[limit.whose][limit.measure] >= limit.max_amount:
            return limit
    return None


def shared_usage(whose: str, job: Job) -> dict[str, float]:
    """The usage of all jobs that share this limit, by measure."""
    if whose == "sweep":
        return usage_of(Job.objects.filter(sweep=job.sweep_id))
    if whose == "project":
        return usage_of(Job.objects.filter(project=job.project_id), midnight())
    return usage_of(Job.objects.all(), midnight())


def usage_of(jobs: QuerySet[Job], since: datetime | None = None) -> dict[str, float]:
    """The usage of these jobs by measure, from ``since`` on if it is given."""
    started = jobs.filter(started_at__isnull=False)
    if since:
        started = started.filter(Q(ended_at=None) | Q(ended_at__gte=since))
    rows = list(started.only("pk", "started_at", "ended_at", "tokens", "steps_used"))
    waits = defaultdict(list)
    for question in Question.objects.filter(job__in=rows).order_by("asked_at"):
        waits[question.job_id].append((question.asked_at, question.answered_at or question.withdrawn_at))
    used = dict.fromkeys(MEASURES, 0.0)
    for job in rows:
        tokens, steps = counted_since(job, since)
        used["tokens"] += tokens
        used["steps"] += steps
        used["seconds"] += seconds_of(job, waits[job.pk], since)
    return used


def counted_since(job: Job, since: datetime | None) -> tuple[int, int]:
    """The tokens and steps of one job, from ``since`` on if it is given."""
    if since is None or job.started_at is None or job.started_at >= since:
        return job.tokens, job.steps_used
    events = JobEvent.objects.filter(job=job, at__gte=since)
    tokens = events.filter(kind__in=TOKEN_EVENTS).values_list("data__tokens", flat=True)
    return sum(map(positive_integer, tokens)), events.filter(kind__in=unit_events("completed")).count()


def seconds_of(
    job: Job, waits: Iterable[tuple[datetime, datetime | None]], since: datetime | None = None
) -> float:
    """Return the seconds that a job has run, without these waits for a person.

    The waits are ordered by their start. An open wait has no end.
    """
    if job.started_at is None:
        return 0.0
    begins, ends = max(job.started_at, since or job.started_at), job.ended_at or timezone.now()
    waited = _seconds_covered((max(begin, begins), end or ends) for begin, end in waits)
    return max(0.0, (ends - begins).total_seconds() - waited)


def _seconds_covered(spans: Iterable[tuple[datetime, datetime]]) -> float:
    """Return how many seconds at least one of these spans covers. They are ordered by their starts."""
    seconds, until = 0.0, None
    for start, end in spans:
        begin = start if until is None else max(start, until)
        if end > begin:
            seconds += (end - begin).total_seconds()
            until = end
    return seconds


def midnight(days: int = 0) -> datetime:
    """The start of the server's current day, or of the day that is ``days`` days from today."""
    day = timezone.localdate() + timedelta(days=days)
    return timezone.make_aware(datetime(day.year, day.month, day.day))

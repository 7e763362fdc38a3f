"""How much jobs may use, what they have used of it, and which limit is reached.

A step is a unit of work that was completed. Seconds are those that a job ran, without
the time in which it waited for a person; those of several jobs are added up, whether they ran side by side or
not. A day begins at the server's midnight, and holds what was used since, whenever the job had begun.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from viewer.engines import unit_events
from viewer.jobs.event_values import positive_integer
from viewer.models import DayLimits, Job, JobEvent, Question
from viewer.models.jobs import seconds_covered
from viewer.models.limits import MEASURES

# What is counted of a job's lines.
TOKEN_EVENTS = ("model_completed", "cache_warmed")
# Why a run was stopped, by whose limit it was.
LIMIT_LABELS: dict[str, str | Promise] = {
    "job": gettext_lazy("Stopped at its limit of %(amount)s."),
    "sweep": gettext_lazy("Stopped at the limit of %(amount)s for all its variations."),
    "project": gettext_lazy("Stopped at the project's limit of %(amount)s a day."),
    "day": gettext_lazy("Stopped at the limit of %(amount)s a day for all jobs."),
}


@dataclass(frozen=True, slots=True)
class Limit:
    """So much at most. ``whose``: job, sweep, project or day; ``measure`` is one of MEASURES."""

    whose: str
    measure: str
    most: float


def limit_in(plain: object) -> Limit | None:
    """The limit that was stored or sent as plain data; None where it is none of ours."""
    match plain:
        case {"whose": str(whose), "measure": str(measure), "most": int() | float() as most}:
            is_known = whose in LIMIT_LABELS and measure in MEASURES and math.isfinite(most)
            return Limit(whose, measure, most) if is_known else None
    return None


def limits_in(whose: str, limits: Mapping[str, Any] | None) -> list[Limit]:
    """The limits that a row holds."""
    return [Limit(whose, measure, limits[measure]) for measure in MEASURES if limits and measure in limits]


def shared_limits(job: Job) -> list[Limit]:
    """Those that the job shares with others, as they stand now."""
    rows = Job.objects.filter(pk=job.pk).values_list("sweep__limits", "project__limits")
    of_sweep, of_project = rows.first() or ({}, {})
    of_day = DayLimits.objects.filter(pk=1).values_list("limits", flat=True).first()
    return [
        *limits_in("sweep", of_sweep),
        *limits_in("project", of_project),
        *limits_in("day", of_day),
    ]


def reached_shared_limit(job: Job) -> Limit | None:
    """The first limit that the job shares with others and that is used up; None where there is room."""
    used: dict[str, dict[str, float]] = {}
    for limit in shared_limits(job):
        if limit.whose not in used:
            used[limit.whose] = shared_usage(limit.whose, job)
        if used[limit.whose][limit.measure] >= limit.most:
            return limit
    return None


def shared_usage(whose: str, job: Job) -> dict[str, float]:
    """What all jobs that share this limit have used of it."""
    if whose == "sweep":
        return usage_of(Job.objects.filter(sweep=job.sweep_id))
    if whose == "project":
        return usage_of(Job.objects.filter(project=job.project_id), last_midnight())
    return usage_of(Job.objects.all(), last_midnight())


def usage_of(jobs: QuerySet[Job], since: datetime | None = None) -> dict[str, float]:
    """What these jobs have used, by measure; ``since`` leaves out what they used before."""
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
    """Tokens and steps of one job."""
    if since is None or job.started_at is None or job.started_at >= since:
        return job.tokens, job.steps_used
    events = JobEvent.objects.filter(job=job, at__gte=since)
    tokens = events.filter(kind__in=TOKEN_EVENTS).values_list("data__tokens", flat=True)
    return sum(map(positive_integer, tokens)), events.filter(kind__in=unit_events("completed")).count()


def seconds_of(
    job: Job, waits: Iterable[tuple[datetime, datetime | None]], since: datetime | None = None
) -> float:
    """How long a job has run, without these waits for a person; in order, an open one without an end."""
    if job.started_at is None:
        return 0.0
    begins, ends = max(job.started_at, since or job.started_at), job.ended_at or timezone.now()
    waited = seconds_covered((max(begin, begins), end or ends) for begin, end in waits)
    return max(0.0, (ends - begins).total_seconds() - waited)


def last_midnight() -> datetime:
    """The server's last midnight."""
    return midnight(0)


def next_midnight() -> datetime:
    """The server's next midnight."""
    return midnight(1)


def midnight(days: int) -> datetime:
    """The beginning of today, or of the day that is so many days later."""
    day = timezone.localdate() + timedelta(days=days)
    return timezone.make_aware(datetime(day.year, day.month, day.day))


def amount(measure: str, number: float) -> str:
    """So much of it, in words: ``20,000 tokens``, ``90 seconds``, ``10 minutes``."""
    if measure == "seconds" and number >= 120 and number % 60 == 0:
        measure, number = "minutes", number / 60
    number = int(number) if number == int(number) else round(number, 1)
    shown = {"number": number_format(number, force_grouping=True)}
    count = int(number)
    words = {
        "tokens": ngettext("%(number)s token", "%(number)s tokens", count),
        "steps": ngettext("%(number)s step", "%(number)s steps", count),
        "seconds": ngettext("%(number)s second", "%(number)s seconds", count),
        "minutes": ngettext("%(number)s minute", "%(number)s minutes", count),
    }
    return words[measure] % shown


def usage_label(limit: Limit, used: float) -> str:
    """How much of a limit is used: ``1,250 of 20,000 tokens``, ``35 seconds of 10 minutes``."""
    number = number_format(int(used), force_grouping=True)
    shown = amount(limit.measure, int(used)) if limit.measure == "seconds" else number
    return _("%(used)s of %(most)s") % {"used": shown, "most": amount(limit.measure, limit.most)}


def limit_label(job: Job) -> str:
    """Which limit has stopped it, as a sentence; empty where none has."""
    if not job.limit_hit:
        return ""
    limit = limit_in(job.limit_hit)
    if limit is None:
        return _("Stopped at a limit that it shares with other runs.")
    return str(LIMIT_LABELS[limit.whose]) % {"amount": amount(limit.measure, limit.most)}

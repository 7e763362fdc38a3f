"""Limits on jobs, the quotas of teams, their usage, and which is reached.

A step is a completed unit, such as a task. Seconds are the time that a job ran, without the time that it
waited for a person. The seconds of several jobs are added up, even if they ran at the same time. A day
begins at the server's midnight, and includes what jobs that started earlier have used since then.

A quota is what the jobs of a team's members may use together. Who is in several teams counts in each. What
was started at a terminal belongs to no team.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q, QuerySet, Subquery, Sum
from django.utils import timezone

from viewer.engines import unit_events
from viewer.formats import count_text, money, short_moment
from viewer.messages.message import UserMessage
from viewer.models import DayLimits, Job, JobEvent, Question, Team
from viewer.models.jobs import MEASURES, JobQuerySet
from viewer.models.roles import unrestricted
from viewer.records.prices import call_in, current_prices
from viewer.stores.protocol import count_of, usage_by_model
from viewer.validation import shortened

# The events that are counted.
TOKEN_EVENTS = ("model_completed", "cache_warmed")
# What a limit may belong to.
OWNERS = ("job", "sweep", "project", "day", "team")
# The measures of a quota: runs at once, and tokens and US dollars a day.
QUOTAS = ("runs", "tokens", "cost")
# The jobs that are runs. Scores and publications use no place of a run.
RUNS = (Job.Kind.FORK, Job.Kind.RESUME, Job.Kind.RUN, Job.Kind.REPLAY)


@dataclass(frozen=True, slots=True)
class Limit:
    """An upper bound. ``whose`` is one of OWNERS; ``measure`` is one of MEASURES, or a team's, of QUOTAS.

    A team's has its name, and what was used when it was reached.
    """

    whose: str
    measure: str
    max_amount: float
    team: str = ""
    used: float = 0


def limit_in(plain: object) -> Limit | None:
    """The limit from plain data, or None if the data does not describe a limit."""
    match plain:
        case {
            "whose": str(whose),
            "measure": str(measure),
            "max_amount": int() | float() as max_amount,
            **others,
        }:
            is_known = whose in OWNERS and measure in (QUOTAS if whose == "team" else MEASURES)
            if not is_known or not abs(max_amount) < math.inf:
                return None
            return Limit(whose, measure, max_amount, *(_team_in(others) if whose == "team" else ()))
    return None


def _team_in(plain: Mapping[Any, object]) -> tuple[str, float]:
    """The name of the team, and how much was used: a runner may have written anything."""
    team, used = plain.get("team"), plain.get("used")
    name = shortened(team) if isinstance(team, str) else ""
    return name, used if isinstance(used, int | float) and abs(used) < math.inf else 0


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
    """The first shared limit, or quota of a team, that is used up, or None.

    A queued job also waits until fewer runs of its teams are under way than they may have at once.
    """
    used: dict[str, dict[str, float]] = {}
    # The sender of a request may not see all jobs that share the limit.
    with unrestricted():
        for limit in shared_limits(job):
            if limit.whose not in used:
                used[limit.whose] = shared_usage(limit.whose, job)
            if used[limit.whose][limit.measure] >= limit.max_amount:
                return limit
        waits = job.status == Job.Status.QUEUED and job.kind in RUNS
        return _reached_quota(job.requester_key, Job.objects.under_way() if waits else None)


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
    return sum(map(count_of, tokens)), events.filter(kind__in=unit_events("completed")).count()


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


def midnight(days: int = 0, now: datetime | None = None) -> datetime:
    """The start of the server's current day, or of ``now``, or of the day that is ``days`` days later."""
    day = timezone.localdate(now) + timedelta(days=days)
    return timezone.make_aware(datetime(day.year, day.month, day.day))


# Quotas of teams.


def quota_refusal(person: int | None, runs: int = 0, start_at: datetime | None = None) -> UserMessage | None:
    """Why the teams of a person may not start this, which has that number of ``runs``; None if they may.

    Requires the transaction that stores the jobs, so that no other process stores one in between. What starts
    later is checked when it starts: its runs at once, and if that is on another day, what they use as well.
    """
    if start_at and start_at >= midnight(days=1):
        return None
    with unrestricted():
        reached = _reached_quota(person, _accepted() if runs and not start_at else None, runs)
    return quota_message(reached, runs) if reached else None


def _accepted() -> JobQuerySet:
    """The unfinished jobs whose start time has come, or that have none."""
    return Job.objects.unfinished().filter(Q(start_at=None) | Q(became_due_at__isnull=False))


def _reached_quota(person: int | None, running: JobQuerySet | None, runs: int = 1) -> Limit | None:
    """The first quota of a person's teams that is used up, or that this number of ``runs`` would exceed.

    The ``running`` jobs count as runs at once. Without them, only what is used in a day is compared.
    """
    if person is None:
        return None
    for team in Team.objects.filter(members=person):
        measures = [one for one in QUOTAS if one in team.quotas and (one != "runs" or running is not None)]
        for measure in measures:
            used, most = used_by_team(team, measure, running), team.quotas[measure]
            is_reached = used + runs > most if measure == "runs" else used >= most
            if is_reached:
                return Limit("team", measure, most, team.name, used)
    return None


def used_by_team(team: Team, measure: str, running: JobQuerySet | None = None) -> float:
    """What the members of a team use: ``running`` jobs or all accepted ones, or tokens or money today."""
    members = Team.members.through.objects.filter(team=team.pk).values("user")
    if measure == "runs":
        runs = _accepted() if running is None else running
        return runs.filter(requester_key__in=members, kind__in=RUNS).count()
    jobs, since = Job.objects.filter(requester_key__in=members), midnight()
    used: float = jobs.filter(started_at__gte=since).aggregate(used=Sum(measure))["used"] or 0
    earlier = jobs.filter(Q(ended_at=None) | Q(ended_at__gte=since), started_at__lt=since)
    for job in earlier.only("pk", "started_at", "tokens", "steps_used"):
        used += counted_since(job, since)[0] if measure == "tokens" else _cost_since(job, since)
    return used


def _cost_since(job: Job, since: datetime) -> float:
    calls = JobEvent.objects.filter(job=job, at__gte=since, kind__in=TOKEN_EVENTS)
    usage = usage_by_model(map(call_in, calls.values_list("data", flat=True)))
    return current_prices().cost(usage, job.started_at).amount or 0


def has_cost_quota(job: Job) -> bool:
    """Whether a team of the person who requested the job has a quota of money."""
    quotas = Team.objects.filter(members=job.requester_key or 0).values_list("quotas", flat=True)
    return any("cost" in one for one in quotas)


def quota_message(limit: Limit, runs: int = 1, at: datetime | None = None) -> UserMessage:
    """Which quota of which team is used up, how much of it is used, and when it is free again.

    ``at`` is when it was reached; None for now.
    """
    show = money if limit.measure == "cost" else count_text
    values: dict[str, Any] = {"team": limit.team, "most": show(limit.max_amount), "used": show(limit.used)}
    if limit.measure == "runs" and runs > 1:
        return UserMessage("quota.several_runs", {**values, "runs": runs})
    if limit.measure == "runs":
        return UserMessage("quota.runs", values)
    code = "quota.cost" if limit.measure == "cost" else "quota.tokens"
    return UserMessage(code, {**values, "until": short_moment(midnight(days=1, now=at))})

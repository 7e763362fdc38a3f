"""Daily limits, as the pages show them on which they are changed."""

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from viewer.forms.limits import DailyLimitsForm, limit_texts
from viewer.jobs.limits.usage import limits_in, midnight, usage_of
from viewer.models import DayLimits, Job, Project
from viewer.presentation.jobs.limit_labels import usage_label
from viewer.seen import mark_of


@dataclass(frozen=True, slots=True)
class ShownLimits:
    """``used`` is the usage of each limit, ``zone`` the time zone of the day.

    ``seen`` is the mark of the limits (viewer/seen.py).
    """

    form: DailyLimitsForm
    used: list[str]
    zone: str
    seen: str


def limits_of_day(form: DailyLimitsForm | None = None) -> ShownLimits:
    """The limits of all jobs together; ``form`` is the one that was sent, with its errors."""
    return _shown("day", DayLimits.current(), Job.objects.all(), form)


def limits_of_project(project: Project, form: DailyLimitsForm | None = None) -> ShownLimits:
    """The limits of one project."""
    return _shown("project", project.limits, Job.objects.filter(project=project), form)


def _shown(
    scope: str, stored: dict[str, Any], jobs: QuerySet[Job], form: DailyLimitsForm | None
) -> ShownLimits:
    used = usage_of(jobs, midnight()) if stored else {}
    labels = [usage_label(limit, used[limit.measure]) for limit in limits_in(scope, stored)]
    form = form or DailyLimitsForm(initial=limit_texts(stored), stored=stored)
    return ShownLimits(form, labels, timezone.get_current_timezone_name(), mark_of(stored))

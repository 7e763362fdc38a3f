"""Daily limits, as the pages show them on which they are changed."""

from dataclasses import dataclass

from django.utils import timezone

from viewer.forms.limits import LimitsForm, limit_texts
from viewer.jobs.limits.usage import last_midnight, limits_in, usage_label, usage_of
from viewer.models import DayLimits, Job, Project


@dataclass(frozen=True, slots=True)
class ShownLimits:
    """``used`` is the usage of each limit, ``zone`` the time zone of the day."""

    form: LimitsForm
    used: list[str]
    zone: str


def limits_of_day(form: LimitsForm | None = None) -> ShownLimits:
    """The limits of all jobs together; ``form`` is the one that was sent, with its errors."""
    stored = DayLimits.current()
    used = usage_of(Job.objects.all(), last_midnight()) if stored else {}
    labels = [usage_label(limit, used[limit.measure]) for limit in limits_in("day", stored)]
    return ShownLimits(
        form or LimitsForm(initial=limit_texts(stored)), labels, timezone.get_current_timezone_name()
    )


def limits_of_project(project: Project, form: LimitsForm | None = None) -> ShownLimits:
    """The limits of one project."""
    used = usage_of(Job.objects.filter(project=project), last_midnight()) if project.limits else {}
    labels = [usage_label(limit, used[limit.measure]) for limit in limits_in("project", project.limits)]
    return ShownLimits(
        form or LimitsForm(initial=limit_texts(project.limits)), labels, timezone.get_current_timezone_name()
    )

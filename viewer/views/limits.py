"""Daily limits, as the pages show them on which they are changed."""

from dataclasses import dataclass

from django.utils import timezone

from viewer.forms.limits import LimitsPart, read_limits
from viewer.jobs.limits.usage import last_midnight, limits_in, usage_label, usage_of
from viewer.models import DayLimits, Job, Project


@dataclass(frozen=True, slots=True)
class ShownLimits:
    """``part`` is the form, ``used`` the usage of each limit, ``zone`` the time zone of the day."""

    part: LimitsPart
    used: list[str]
    zone: str


def limits_of_day(part: LimitsPart | None = None) -> ShownLimits:
    """The limits of all jobs together; ``part`` is the form as sent, with its errors."""
    stored = DayLimits.current().limits
    used = usage_of(Job.objects.all(), last_midnight()) if stored else {}
    words = [usage_label(limit, used[limit.measure]) for limit in limits_in("day", stored)]
    return ShownLimits(part or read_limits(None, stored), words, timezone.get_current_timezone_name())


def limits_of_project(project: Project, part: LimitsPart | None = None) -> ShownLimits:
    """The limits of one project."""
    used = usage_of(Job.objects.filter(project=project), last_midnight()) if project.limits else {}
    words = [usage_label(limit, used[limit.measure]) for limit in limits_in("project", project.limits)]
    return ShownLimits(part or read_limits(None, project.limits), words, timezone.get_current_timezone_name())

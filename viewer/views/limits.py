"""The limits of a day, as the pages that set them show them."""

from dataclasses import dataclass

from django.utils import timezone

from viewer.forms.limits import LimitsPart, read_limits
from viewer.jobs.limits.usage import day_began, limits_in, used_by, used_words
from viewer.models import DayLimits, Job, Project


@dataclass(frozen=True, slots=True)
class ShownLimits:
    """``part`` is the form; ``used`` says what is used of each limit, ``zone`` whose midnight counts."""

    part: LimitsPart
    used: list[str]
    zone: str


def limits_of_day(part: LimitsPart | None = None) -> ShownLimits:
    """Those of all jobs together; ``part`` is the form as it was sent, with its errors."""
    stored = DayLimits.current().limits
    used = used_by(Job.objects.all(), day_began()) if stored else {}
    words = [used_words(limit, used[limit.measure]) for limit in limits_in("day", stored)]
    return ShownLimits(part or read_limits(None, stored), words, timezone.get_current_timezone_name())


def limits_of_project(project: Project, part: LimitsPart | None = None) -> ShownLimits:
    """Those of one project."""
    used = used_by(Job.objects.filter(project=project), day_began()) if project.limits else {}
    words = [used_words(limit, used[limit.measure]) for limit in limits_in("project", project.limits)]
    return ShownLimits(part or read_limits(None, project.limits), words, timezone.get_current_timezone_name())

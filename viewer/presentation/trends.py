"""What runs of the last days used, day by day, and why they failed, for the home page.

Only the newest rows are read, so a page takes the same time with any number of them.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from statistics import median

from django.utils.timezone import localdate, make_aware, now
from django.utils.translation import gettext as _

from viewer.formats import count_text, duration, moment_text, money
from viewer.messages.message import PLAIN_TEXT
from viewer.messages.translation import translate
from viewer.models import Job, Location, Project, Run

MAX_DAYS = 30
# The runs and jobs that are read. With more runs, fewer days are shown, each with all of its runs.
MAX_RUNS, MAX_JOBS = 2_000, 500
MAX_REASONS = 5
# The characters of a reason.
MAX_TEXT = 300


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
    today = localdate()
    first = today - timedelta(days=MAX_DAYS - 1)
    # A checkpoint may say that it is from the future.
    recent = (now() - timedelta(days=MAX_DAYS), now() + timedelta(days=1))
    newest = Run.objects.top_level().filter(last_at__range=recent)
    columns = ("last_at", "cost", "tokens", "seconds", "pk", "status", "location")
    rows = list(newest.order_by("-last_at", "-pk").values_list(*columns)[:MAX_RUNS])
    if len(rows) == MAX_RUNS:
        # The oldest day may lack runs. At least today is shown.
        first = min(max(first, localdate(rows[-1][0]) + timedelta(days=1)), today)
    days = [first + timedelta(days=number) for number in range((today - first).days + 1)]
    costs, tokens, seconds = (defaultdict[date, list[float]](list) for _name in range(3))
    for last_at, cost, used, took, *_others in rows:
        for by_day, value in ((costs, cost), (tokens, used), (seconds, took)):
            if value:
                by_day[localdate(last_at)].append(value)
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
    return moment_text(make_aware(datetime.combine(day, time())), "day")


# The statuses of jobs that failed.
_FAILED = (Job.Status.FAILED, Job.Status.INTERRUPTED)


def _reasons_of_jobs() -> list[Reason]:
    """Return why jobs failed, by project."""
    failed = Job.objects.filter(status__in=_FAILED, ended_at__gte=now() - timedelta(days=MAX_DAYS))
    newest = failed.select_related("project").only("pk", "error", "project__folder").order_by("-ended_at")
    jobs = defaultdict[tuple[Project | None, str], list[Job]](list)
    for job in newest[:MAX_JOBS]:
        jobs[job.project, _kind(job)].append(job)
    return [Reason(project, _text(some[0]), len(some), some[0]) for (project, _kind_of), some in jobs.items()]


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


def _kind(job: Job) -> str:
    """What errors of one kind share: their code, or what precedes the first colon, as an exception's name."""
    if job.error is None or job.error.code != PLAIN_TEXT:
        return job.error.code if job.error else ""
    return _text(job).partition(":")[0]


def _text(job: Job) -> str:
    lines = translate(job.error).strip().splitlines() if job.error else []
    return lines[0][:MAX_TEXT] if lines else _("No reason was recorded.")

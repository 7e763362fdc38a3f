"""Updates for an open home page: that something changed anywhere. The page then fetches its contents."""

from dataclasses import dataclass

from django.db.models import Count, Q, Sum
from django.template.loader import render_to_string

from viewer.models import Job, Location, Question


@dataclass(frozen=True, slots=True)
class HomeState:
    """Numbers of which at least one changes whenever the home page changes."""

    revision: int
    jobs: int
    under_way: int
    ended: int
    questions: int
    cancelling: int

    @property
    def mark(self) -> str:
        """Everything but the revision of the locations, as one text."""
        return f"{self.jobs}-{self.under_way}-{self.ended}-{self.questions}-{self.cancelling}"


def home_state() -> HomeState:
    """Return the present state."""
    revision = Location.objects.aggregate(total=Sum("revision"))["total"] or 0
    jobs = Job.objects.aggregate(
        all=Count("pk"),
        under_way=Count("pk", filter=Q(status__in=[Job.Status.STARTING, Job.Status.RUNNING])),
        ended=Count("pk", filter=Q(status__in=Job.ENDED)),
        cancelling=Count("pk", filter=Q(cancel_requested_at__isnull=False) & ~Q(status__in=Job.ENDED)),
    )
    waiting = Question.objects.waiting().count()
    return HomeState(revision, jobs["all"], jobs["under_way"], jobs["ended"], waiting, jobs["cancelling"])


@dataclass(slots=True)
class HomeFeed:
    """The feed of one page, with the last state that was sent."""

    sent_state: HomeState | None = None


def next_message(feed: HomeFeed) -> str | None:
    """Return the next HTML fragment for the page; None if it is up to date."""
    state = home_state()
    if state == feed.sent_state:
        return None
    feed.sent_state = state
    return render_to_string("live/_home_revision.html", {"state": state, "oob": True})

"""Updates for an open page of a location or run: its revision, and the bars of new jobs."""

from dataclasses import dataclass, field
from uuid import UUID

from django.template.loader import render_to_string

from viewer.models import Job, Location
from viewer.presentation.jobs.job_view import shown_job


@dataclass(slots=True)
class LocationFeed:
    """The feed of one page. ``jobs`` are the jobs whose bars it shows."""

    uid: UUID
    jobs: set[str] = field(default_factory=set)
    # Whether the user may cancel them.
    can_run: bool = False
    # The last revision and number of ended jobs that were sent.
    sent_state: tuple[int, int] | None = None


def next_message(feed: LocationFeed) -> str | None:
    """Return the next HTML fragments for the page; None if it is up to date."""
    location = Location.objects.filter(uid=feed.uid).first()
    if location is None:
        return None
    unfinished = Job.objects.unfinished().filter(location=location).select_related("run", "location")
    new = [job for job in unfinished.order_by("created_at") if str(job.pk) not in feed.jobs]
    ended = Job.objects.ended().filter(location=location).count()
    if (location.revision, ended) == feed.sent_state and not new:
        return None
    feed.sent_state = (location.revision, ended)
    feed.jobs |= {str(job.pk) for job in new}
    context = {
        "location": location,
        "ended": ended,
        "jobs": [shown_job(job) for job in new],
        "can_run": feed.can_run,
        "oob": True,
    }
    return render_to_string("live/_location_update.html", context)

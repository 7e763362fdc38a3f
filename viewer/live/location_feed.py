"""What an open page of a location or run is sent: that something is new, and the bars of jobs that began."""

from collections.abc import Collection
from dataclasses import dataclass, field
from uuid import UUID

from django.template.loader import render_to_string

from viewer.models import Job, Location
from viewer.presentation.jobs.job_view import shown_job


@dataclass(slots=True)
class LocationFeed:
    """How far one page has been told of its location. ``jobs`` are those whose bars it shows."""

    uid: UUID
    jobs: set[str] = field(default_factory=set)
    # Whether the page's reader may cancel them.
    can_run: bool = False
    # What it was last told: the location's revision, and how many of its jobs have ended.
    told: tuple[int, int] | None = None


def feed_for(uid: UUID, shown: Collection[str], *, can_run: bool = False) -> LocationFeed:
    """For a page that shows these jobs' bars already."""
    return LocationFeed(uid, set(shown), can_run)


def next_message(feed: LocationFeed) -> str | None:
    """The next fragments for the page, or None where it knows everything."""
    location = Location.objects.filter(uid=feed.uid).first()
    if location is None:
        return None
    unfinished = Job.objects.unfinished().filter(location=location).select_related("run", "location")
    new = [job for job in unfinished.order_by("created_at") if str(job.pk) not in feed.jobs]
    ended = Job.objects.ended().filter(location=location).count()
    if (location.revision, ended) == feed.told and not new:
        return None
    feed.told = (location.revision, ended)
    feed.jobs |= {str(job.pk) for job in new}
    context = {
        "location": location,
        "ended": ended,
        "jobs": [shown_job(job) for job in new],
        "can_run": feed.can_run,
        "oob": True,
    }
    return render_to_string("live/_location_update.html", context)

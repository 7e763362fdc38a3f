"""Drafts: forks in the scratch stores of their jobs, which hold real values and are deleted when unneeded."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from viewer.host_requests import DraftFile
from viewer.models import Checkpoint, Job, JobEvent, Location


@dataclass(frozen=True, slots=True)
class Draft:
    """A scratch store. ``job`` is None if its row is gone.

    ``removed_at`` is when it may be deleted: None while its job runs, and as long as it may be published.
    """

    job: Job | None
    written_at: datetime
    size: int
    checkpoints: int
    removed_at: datetime | None


def drafts_of(stored: Sequence[DraftFile]) -> list[Draft]:
    """Return what these scratch stores hold, in the same order, and when they are deleted."""
    names = [one.job for one in stored]
    jobs = {str(job.pk): job for job in Job.objects.filter(pk__in=names).select_related("run", "location")}
    return [_draft_of(one, jobs.get(one.job)) for one in stored]


def _draft_of(stored: DraftFile, job: Job | None) -> Draft:
    prefix = f"{Checkpoint.SCRATCH}{stored.job}/"
    locations = Location.objects.filter(pk=job.location_id) if job else Location.objects.all()
    # A range of keys, unlike a search for a prefix, uses the index. "0" follows "/".
    keys = {"source_key__gte": prefix, "source_key__lt": f"{prefix[:-1]}0"}
    count = Checkpoint.objects.filter(location__in=locations.values("pk"), **keys).count()
    return Draft(job, stored.written_at, stored.size, count, _removal(stored, job, prefix, count))


def _removal(stored: DraftFile, job: Job | None, prefix: str, checkpoints: int) -> datetime | None:
    """Return when a scratch store is no longer needed; None if that is not known yet."""
    later = timedelta(days=settings.SCRATCH_DAYS)
    if job is None:
        # Its row may be in a backup that is restored later.
        return stored.written_at + later
    if not job.has_ended or job.ended_at is None:
        return None
    if job.run_id is None:
        return job.ended_at
    if checkpoints and not _is_published(job, prefix):
        return None
    return job.ended_at + later


def _is_published(job: Job, prefix: str) -> bool:
    later = Job.objects.filter(kind=Job.Kind.PUBLISH, checkpoint__source_key__startswith=prefix)
    jobs = [job.pk, *later.values_list("pk", flat=True)]
    return JobEvent.objects.filter(kind="published", job__in=jobs).exists()

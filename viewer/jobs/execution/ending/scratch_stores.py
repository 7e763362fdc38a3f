"""Deletes scratch stores of forks that are no longer needed, because they hold real values."""

from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from viewer.jobs.storage import job_storages
from viewer.models import Checkpoint, Job, JobEvent


def delete_scratch_stores() -> int:
    """Delete the stores that are no longer needed. Return the number deleted.

    These are stores of jobs whose run was removed and, ``SCRATCH_DAYS`` after the job, of published forks
    and of jobs without a checkpoint. Forks that may still be published are not deleted.
    """
    before = timezone.now() - timedelta(days=settings.SCRATCH_DAYS)
    deleted = 0
    for storage in job_storages():
        written_at = storage.scratch_store_written_at()
        if written_at is not None and not _is_needed(storage.name, written_at, before):
            storage.delete_scratch_store()
            deleted += 1
    return deleted


def _is_needed(job_id: str, written_at: float, before: datetime) -> bool:
    job = Job.objects.filter(pk=job_id).first()
    if job is None:
        # Its row may be in a backup that is restored later.
        return written_at > before.timestamp()
    if not job.has_ended:
        return True
    if job.run_id is None:
        return False
    if job.ended_at is None or job.ended_at > before:
        return True
    prefix = f"{Checkpoint.SCRATCH}{job.pk}/"
    is_only_here = Checkpoint.objects.filter(location=job.location_id, source_key__startswith=prefix).exists()
    return is_only_here and not _is_published(job, prefix)


def _is_published(job: Job, prefix: str) -> bool:
    later = Job.objects.filter(kind=Job.Kind.PUBLISH, checkpoint__source_key__startswith=prefix)
    jobs = [job.pk, *later.values_list("pk", flat=True)]
    return JobEvent.objects.filter(kind="published", job__in=jobs).exists()

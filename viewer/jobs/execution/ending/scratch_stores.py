"""Deletes scratch stores of forks that are no longer needed, because they hold real values."""

from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from viewer.jobs.local_storage import UUID_NAME
from viewer.models import Checkpoint, Job, JobEvent
from viewer.models.runs import SCRATCH_STORE


def delete_scratch_stores() -> int:
    """Delete the stores that are no longer needed. Return the number deleted.

    These are stores of jobs whose run was removed and, ``SCRATCH_DAYS`` after the job, of published forks
    and of jobs without a checkpoint. Forks that may still be published are not deleted.
    """
    before = timezone.now() - timedelta(days=settings.SCRATCH_DAYS)
    unneeded = [
        path
        for path in (Path(settings.DATA_DIR) / "jobs").glob(f"*/{SCRATCH_STORE}")
        if UUID_NAME.fullmatch(path.parent.name) and not _is_needed(path, before)
    ]
    for path in unneeded:
        path.unlink(missing_ok=True)
    return len(unneeded)


def _is_needed(store: Path, before: datetime) -> bool:
    job = Job.objects.filter(pk=store.parent.name).first()
    if job is None:
        # Its row may be in a backup that is restored later.
        return store.stat().st_mtime > before.timestamp()
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

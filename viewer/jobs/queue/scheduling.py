"""Which jobs are in the queue: those that may start now."""

from datetime import timedelta

from django.utils import timezone

from viewer.jobs.limits.usage import reached_shared_limit
from viewer.jobs.queue.cache_warmup import waits_for_cache_warmup
from viewer.jobs.queue.queue import job_queue
from viewer.models import Job

# How long the queue keeps the entries of ended jobs.
KEPT_FOR = timedelta(days=1)


def enqueue(job: Job) -> None:
    """Put the job into the queue."""
    job_queue().add(job.pk)


def enqueue_if_ready(job: Job) -> None:
    """Enqueue the job if it may start now. Otherwise ``requeue_missing`` does later."""
    if Job.objects.due().filter(pk=job.pk).exists() and _has_room(job):
        enqueue(job)


def requeue_missing() -> int:
    """Enqueue jobs that may start and have no queue entry. Return their number.

    Such jobs have become due, are no longer held back by a limit, or have lost their entry.
    """
    Job.objects.mark_due()
    waiting = job_queue().waiting()
    due = Job.objects.due().order_by("created_at")
    missing = [job for job in due if job.pk not in waiting and _has_room(job)]
    for job in missing:
        enqueue(job)
    return len(missing)


def delete_old_entries() -> int:
    """Delete the queue entries of jobs that ended long ago, not the jobs. Return the number deleted."""
    unfinished = set(Job.objects.unfinished().values_list("pk", flat=True))
    return job_queue().delete(timezone.now() - KEPT_FOR, unfinished)


def _has_room(job: Job) -> bool:
    """Whether neither a shared limit nor the cache warm-up of its sweep delays the job."""
    return reached_shared_limit(job) is None and not waits_for_cache_warmup(job)

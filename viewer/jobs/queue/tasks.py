"""The queue of jobs. It holds only ids; the job's row says what to do and whether it may start."""

from datetime import timedelta
from uuid import UUID

from django.utils import timezone
from django_tasks import task
from django_tasks_db.models import DBTaskResult

from viewer.jobs.execution.follow import ensure_finished
from viewer.jobs.limits.usage import reached_shared_limit
from viewer.jobs.queue.cache_warmup import waits_for_cache_warmup
from viewer.jobs.storage import storage_of
from viewer.models import Job

# How long the queue keeps the entries of ended jobs.
KEPT_FOR = timedelta(days=1)


@task()
def run_job(job_id: str) -> None:
    """Run a job to its end, unless another process does. Running it twice is harmless."""
    job = Job.objects.filter(pk=UUID(job_id)).first()
    if job is not None:
        ensure_finished(job)


def enqueue(job: Job) -> None:
    """Put the job into the queue."""
    run_job.enqueue(str(job.pk))


def enqueue_if_ready(job: Job) -> None:
    """Put the job into the queue if it may start now. Otherwise ``requeue_missing`` does so later."""
    if Job.objects.due().filter(pk=job.pk).exists() and _has_room(job):
        enqueue(job)


def _has_room(job: Job) -> bool:
    """Whether neither a shared limit nor the first job of its sweep holds the job back."""
    return reached_shared_limit(job) is None and not waits_for_cache_warmup(job)


def requeue_missing() -> int:
    """Put queued jobs that may start and have no queue entry into the queue. Returns how many.

    Their start time has come, a limit has room again, or their entry was lost.
    """
    Job.objects.mark_due()
    waiting = DBTaskResult.objects.ready().filter(task_path=run_job.module_path)
    enqueued = {entry["args"][0] for entry in waiting.values_list("args_kwargs", flat=True)}
    due = Job.objects.due().order_by("created_at")
    missing = [job for job in due if str(job.pk) not in enqueued and _has_room(job)]
    for job in missing:
        enqueue(job)
    return len(missing)


def delete_old_entries() -> int:
    """Delete the queue entries of jobs that ended long ago, but not the jobs. Returns how many."""
    old = DBTaskResult.objects.filter(
        task_path=run_job.module_path, enqueued_at__lt=timezone.now() - KEPT_FOR
    )
    unfinished = {str(pk) for pk in Job.objects.unfinished().values_list("pk", flat=True)}
    entries = old.values_list("pk", "args_kwargs")
    ended = [pk for pk, arguments in entries if arguments["args"][0] not in unfinished]
    return DBTaskResult.objects.filter(pk__in=ended).delete()[0]


def orphaned_jobs() -> list[Job]:
    """Jobs under way that no process follows. They are followed again, but never started again."""
    return [job for job in Job.objects.under_way() if not storage_of(job).is_followed()]

"""The queue's one entry. The queue only carries a job's id; the row says what is to be done."""

from datetime import timedelta
from uuid import UUID

from django.utils import timezone
from django_tasks import task
from django_tasks_db.models import DBTaskResult

from viewer.jobs import locks
from viewer.jobs.execution.follow import ensure_finished
from viewer.jobs.limits.usage import reached_shared_limit
from viewer.jobs.queue.cache_warmup import waits_for_cache_warmup
from viewer.models import Job

# How long the queue's entries of jobs that have ended are kept.
KEPT_FOR = timedelta(days=1)


@task()
def run_job(job_id: str) -> None:
    """Run a job to its end, if nobody has and nobody does. Offering it twice is harmless."""
    job = Job.objects.filter(pk=UUID(job_id)).first()
    if job is not None:
        ensure_finished(job)


def enqueue(job: Job) -> None:
    """Put the job's id in the queue."""
    run_job.enqueue(str(job.pk))


def enqueue_if_ready(job: Job) -> None:
    """Put it in the queue now, where nothing holds it back; else it is offered later."""
    if Job.objects.due().filter(pk=job.pk).exists() and _has_room(job):
        enqueue(job)


def _has_room(job: Job) -> bool:
    """Whether neither a limit that it shares nor the first of its group holds it back."""
    return reached_shared_limit(job) is None and not waits_for_cache_warmup(job)


def requeue_missing() -> int:
    """Offer queued jobs that may start and are not in the queue. Returns how many.

    Their time has come, there is room for them now, or their entry was lost.
    """
    Job.objects.mark_due()
    waiting = DBTaskResult.objects.ready().filter(task_path=run_job.module_path)
    offered = {entry["args"][0] for entry in waiting.values_list("args_kwargs", flat=True)}
    due = Job.objects.due().order_by("created_at")
    lost = [job for job in due if str(job.pk) not in offered and _has_room(job)]
    for job in lost:
        enqueue(job)
    return len(lost)


def delete_old_entries() -> int:
    """Delete the queue's entries of jobs that ended long ago; the jobs themselves stay. Returns how many."""
    old = DBTaskResult.objects.filter(
        task_path=run_job.module_path, enqueued_at__lt=timezone.now() - KEPT_FOR
    )
    unfinished = {str(pk) for pk in Job.objects.unfinished().values_list("pk", flat=True)}
    entries = old.values_list("pk", "args_kwargs")
    over = [pk for pk, given in entries if given["args"][0] not in unfinished]
    return DBTaskResult.objects.filter(pk__in=over).delete()[0]


def orphaned_jobs() -> list[Job]:
    """Jobs under way that nobody follows: their worker is gone. To be followed on, never started again."""
    return [job for job in Job.objects.under_way() if not locks.is_held(job.folder / locks.FOLLOWER)]

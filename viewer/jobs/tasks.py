"""The queue's one entry. The queue only carries a job's id; the row says what is to be done."""

from uuid import UUID

from django_tasks import task
from django_tasks_db.models import DBTaskResult

from viewer.jobs import locks
from viewer.jobs.follow import carry
from viewer.models import Job


@task()
def run_job(job_id: str) -> None:
    """Run a job to its end, if nobody has and nobody does. Offering it twice is harmless."""
    job = Job.objects.filter(pk=UUID(job_id)).first()
    if job is not None:
        carry(job)


def offer(job: Job) -> None:
    """Put the job's id in the queue."""
    run_job.enqueue(str(job.pk))


def offer_lost() -> int:
    """Offer queued jobs whose entry in the queue was lost. Returns how many."""
    waiting = DBTaskResult.objects.ready().filter(task_path=run_job.module_path)
    offered = {entry["args"][0] for entry in waiting.values_list("args_kwargs", flat=True)}
    lost = [job for job in Job.objects.queued() if str(job.pk) not in offered]
    for job in lost:
        offer(job)
    return len(lost)


def orphans() -> list[Job]:
    """Jobs under way that nobody follows: their worker is gone. To be followed on, never started again."""
    return [job for job in Job.objects.under_way() if not locks.is_held(job.folder / locks.FOLLOWER)]

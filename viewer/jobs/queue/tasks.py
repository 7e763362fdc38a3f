"""The queue as rows of Django's tasks framework."""

import os
import time
from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django_tasks import task
from django_tasks_db.management.commands.db_worker import Worker
from django_tasks_db.models import DBTaskResult

from viewer.jobs.execution.following.follow import ensure_finished
from viewer.models import Job


@task()
def run_job(job_id: str) -> None:
    """Run a job to its end, unless another process does. Running it twice is harmless."""
    job = Job.objects.filter(pk=UUID(job_id)).first()
    if job is not None:
        ensure_finished(job)


class TaskQueue:
    """A ``JobQueue`` in the database."""

    def add(self, job: UUID) -> None:
        run_job.enqueue(str(job))

    def waiting(self) -> set[UUID]:
        ready = DBTaskResult.objects.ready().filter(task_path=run_job.module_path)
        return {_job_of(arguments) for arguments in ready.values_list("args_kwargs", flat=True)}

    def run_next(self) -> None:
        Worker(
            queue_names=["*"],
            excluded_queue_names=[],
            interval=0,
            batch=True,
            backend_name="default",
            startup_delay=False,
            max_tasks=1,
            worker_id=f"{os.getpid()}-{time.monotonic_ns()}",
        ).run()

    def delete(self, added_before: datetime, unfinished: Collection[UUID]) -> int:
        old = DBTaskResult.objects.filter(task_path=run_job.module_path, enqueued_at__lt=added_before)
        entries = old.values_list("pk", "args_kwargs")
        ended = [pk for pk, arguments in entries if _job_of(arguments) not in unfinished]
        return DBTaskResult.objects.filter(pk__in=ended).delete()[0]


def _job_of(arguments: dict[str, list[str]]) -> UUID:
    return UUID(arguments["args"][0])

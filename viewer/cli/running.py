"""Waits for a job at the terminal. Without a worker, this process runs the job itself."""

import time
from collections.abc import Callable
from pathlib import Path

from django.conf import settings

from viewer.data_folder.failures import DataFolderFailure, has_room, no_space
from viewer.host.jobs.following import ensure_finished, never
from viewer.host_requests import ReadWorkers, ask
from viewer.launching.enqueue import request_cancel
from viewer.models import Job
from viewer.records.limits import reached_shared_limit

POLL_SECONDS = 0.1


def run_here(job: Job, leaves: Callable[[], bool] = never) -> None:
    """Wait until the job has ended. A worker runs it, or this process if no worker is up.

    Returns early if it asks a question and ``leaves`` is true, or if it will not start: it missed its start
    time, or its sweep has used up a limit. Raises DataFolderFailure if the disk has no space for it. Ctrl-C
    cancels the job. The KeyboardInterrupt is raised once the job has ended.
    """
    interrupted: KeyboardInterrupt | None = None
    while not (job.has_ended or job.is_missed or _is_held(job) or (leaves() and is_asking(job))):
        try:
            if not ask(ReadWorkers()).is_up:
                if job.status == Job.Status.QUEUED and not has_room():
                    raise DataFolderFailure(no_space(Path(settings.DATA_DIR)))
                Job.objects.filter(pk=job.pk).mark_due()
                ensure_finished(job, leaves)
            job.refresh_from_db()
            if not job.has_ended:
                # Another process runs it.
                time.sleep(POLL_SECONDS)
        except KeyboardInterrupt as error:
            interrupted = error
            request_cancel(job)
    if interrupted:
        raise interrupted


def is_asking(job: Job) -> bool:
    """Whether a question of the job waits for an answer."""
    return not job.has_ended and job.questions.waiting().exists()


def _is_held(job: Job) -> bool:
    """Whether a limit of its sweep is used up, which stays so: the usage never decreases."""
    if job.status != Job.Status.QUEUED or job.sweep_id is None:
        return False
    limit = reached_shared_limit(job)
    return limit is not None and limit.whose == "sweep"

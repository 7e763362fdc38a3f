"""Makes a job's row, once, and has it run."""

import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from viewer.jobs.follow import carry
from viewer.jobs.launch import runnable
from viewer.jobs.locks import worker_is_up
from viewer.jobs.tasks import offer
from viewer.models import Checkpoint, Job, Project

POLL_SECONDS = 0.1


def start_job(
    checkpoint: Checkpoint,
    project: Project | None,
    kind: Job.Kind,
    branch: str,
    request: Mapping[str, Any],
    plan: Sequence[Mapping[str, Any]],
    requested_by: AbstractBaseUser | None = None,
    idempotency_key: UUID | None = None,
) -> Job:
    """A queued job, offered to the workers once it is committed.

    The same key finds the same job, whatever else is given. ``branch`` is the one that the run writes to.
    Raises JobRefused where the project cannot run.
    """
    key = idempotency_key or uuid4()
    existing = Job.objects.filter(idempotency_key=key).first()
    if existing:
        return existing
    values = {
        "kind": kind,
        "location": checkpoint.location,
        "run": checkpoint.run,
        "checkpoint": checkpoint,
        "project": runnable(project),
        "requested_by": requested_by,
        "branch": branch,
        "request": dict(request),
        "plan": [dict(step) for step in plan],
    }
    with transaction.atomic():
        job, is_new = Job.objects.get_or_create(idempotency_key=key, defaults=values)
        if is_new:
            transaction.on_commit(lambda: offer(job))
    return job


def run_here(job: Job) -> None:
    """Wait until the job has ended: its worker runs it, or where none is up, this process does.

    Ctrl-C cancels the job, as it would a program in the foreground, and is raised once the job has ended.
    """
    interrupted: KeyboardInterrupt | None = None
    while not job.has_ended:
        try:
            if not worker_is_up():
                carry(job)
            job.refresh_from_db()
            if not job.has_ended:
                # Another process has it.
                time.sleep(POLL_SECONDS)
        except KeyboardInterrupt as error:
            interrupted = error
            job.request_cancel()
    if interrupted:
        raise interrupted

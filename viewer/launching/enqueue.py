"""Makes a job's row, once, and has it run."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from viewer.jobs.execution.cancel import request_cancel
from viewer.jobs.execution.follow import ensure_finished
from viewer.jobs.execution.request import REPEATABLE_EDITS
from viewer.jobs.execution.start import runnable
from viewer.jobs.locks import worker_is_up
from viewer.jobs.queue.tasks import enqueue_if_ready
from viewer.launching.branch_reservation import refuse_taken
from viewer.launching.options import Terms, mark_of_asked
from viewer.launching.retry import kept_edits
from viewer.models import Checkpoint, Job, Location, Project

POLL_SECONDS = 0.1
NO_TERMS = Terms()


def start_job(
    checkpoint: Checkpoint,
    project: Project | None,
    kind: Job.Kind,
    branch: str,
    request: Mapping[str, Any],
    plan: Sequence[Mapping[str, Any]],
    requested_by: AbstractBaseUser | None = None,
    idempotency_key: UUID | None = None,
    terms: Terms = NO_TERMS,
) -> Job:
    """A queued job, offered to the workers once it is committed, or when its terms let it start.

    The same key finds the same job, whatever else is given. ``branch`` is the one that the run writes to.
    Raises JobRefused where the project cannot run, and BranchTaken where another job writes to the branch.
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
    return _queued(values, key, terms)


def start_run(
    location: Location,
    project: Project | None,
    request: Mapping[str, Any],
    requested_by: AbstractBaseUser | None = None,
    idempotency_key: UUID | None = None,
    terms: Terms = NO_TERMS,
) -> Job:
    """A queued job of a new run that writes to this location, as ``start_job`` makes one from a checkpoint.

    Its run is known with its first checkpoint. Raises JobRefused where the project cannot run.
    """
    key = idempotency_key or uuid4()
    existing = Job.objects.filter(idempotency_key=key).first()
    if existing:
        return existing
    values = {
        "kind": Job.Kind.RUN,
        "location": location,
        "project": runnable(project),
        "requested_by": requested_by,
        "branch": request["branch"],
        "request": dict(request),
    }
    return _queued(values, key, terms)


def _queued(values: Mapping[str, Any], key: UUID, terms: Terms) -> Job:
    """The job of this key, made and offered where it is not there yet."""
    agreed = {
        "start_at": terms.start_at,
        "limits": dict(terms.limits),
        "request_digest": mark_of_asked(values["request"], terms),
    }
    with transaction.atomic():
        existing = Job.objects.filter(idempotency_key=key).first()
        if existing:
            return existing
        refuse_taken(values["kind"], values["location"], values.get("run"), values["branch"])
        kept = {REPEATABLE_EDITS: kept_edits(values["request"], values["project"])}
        stored = {**values, "request": {**values["request"], **kept}}
        job = Job.objects.create(idempotency_key=key, **stored, **agreed)
        transaction.on_commit(lambda: enqueue_if_ready(job))
    return job


def move_start(job: Job, start_at: datetime | None) -> bool:
    """Have a queued job start at another time, or as soon as it can. False where it is queued no more."""
    moved = job.move_start(start_at)
    if moved:
        enqueue_if_ready(job)
    return moved


def run_here(job: Job) -> None:
    """Wait until the job has ended: its worker runs it, or where none is up, this process does.

    Returns before its end where its time has passed for too long: then a person has to start it.
    Ctrl-C cancels the job, as it would a program in the foreground, and is raised once the job has ended.
    """
    interrupted: KeyboardInterrupt | None = None
    while not (job.has_ended or job.is_missed):
        try:
            if not worker_is_up():
                Job.objects.filter(pk=job.pk).mark_due()
                ensure_finished(job)
            job.refresh_from_db()
            if not job.has_ended:
                # Another process has it.
                time.sleep(POLL_SECONDS)
        except KeyboardInterrupt as error:
            interrupted = error
            request_cancel(job)
    if interrupted:
        raise interrupted

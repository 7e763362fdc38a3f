"""Stores a job and its branch, once, and enqueues it."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from viewer.data_folder.failures import DataFolderFailure, has_room, no_space
from viewer.host.jobs.environment import JobRefused, runnable
from viewer.host.jobs.following import ensure_finished, never
from viewer.host.jobs.orphans import worker_is_up
from viewer.host.jobs.processes import request_cancel
from viewer.host.jobs.queue import enqueue
from viewer.host.jobs.runner_requests import REPEATABLE_EDITS
from viewer.launching.naming import kept_edits
from viewer.launching.requests import LaunchOptions, request_digest
from viewer.models import Checkpoint, Job, Location, Project, Run
from viewer.records.limits import reached_shared_limit

# Reserves a branch for a job. Called in the transaction that stores the job's row.


class BranchTaken(JobRefused):
    """Another job or checkpoint has the branch. Nothing was started."""


def refuse_taken(kind: str, location: Location, run: Run | None, branch: str) -> None:
    """Check that no other unfinished job writes to this branch, and that a fork's branch is new.

    Transactions begin with a write lock, so no other process can write between this check and the insert of
    the row. Raises BranchTaken.
    """
    if kind == Job.Kind.FORK and branch in location.taken_branches:
        raise BranchTaken("branch.exists", name=branch)
    if kind == Job.Kind.RESUME and Job.objects.unfinished().filter(run=run, branch=branch).exists():
        raise BranchTaken(
            "branch.in_use",
            name=branch,
        )


# Stores a job, once, and enqueues it.


POLL_SECONDS = 0.1
NO_OPTIONS = LaunchOptions()


def start_job(
    checkpoint: Checkpoint,
    project: Project | None,
    kind: Job.Kind,
    branch: str,
    request: Mapping[str, Any],
    plan: Sequence[Mapping[str, Any]],
    requested_by: AbstractBaseUser | None = None,
    idempotency_key: UUID | None = None,
    options: LaunchOptions = NO_OPTIONS,
) -> Job:
    """The queued job, enqueued once it is committed, or at its start time.

    Returns the job that an earlier call stored with the same key, if any. The run writes to ``branch``.
    Raises JobRefused if the project cannot run, and BranchTaken if another job writes to the branch.
    """
    values = {
        "kind": kind,
        "location": checkpoint.location,
        "run": checkpoint.run,
        "checkpoint": checkpoint,
        "requested_by": requested_by,
        "branch": branch,
        "request": dict(request),
        "plan": [dict(step) for step in plan],
    }
    return _queued(values, project, idempotency_key or uuid4(), options)


def start_run(
    location: Location,
    project: Project | None,
    request: Mapping[str, Any],
    requested_by: AbstractBaseUser | None = None,
    idempotency_key: UUID | None = None,
    options: LaunchOptions = NO_OPTIONS,
) -> Job:
    """The queued job of a new run that writes to this location, as ``start_job`` returns it.

    ``job.run`` is None until the first checkpoint is imported. Raises JobRefused if the project cannot run.
    """
    values = {
        "kind": Job.Kind.RUN,
        "location": location,
        "requested_by": requested_by,
        "branch": request["branch"],
        "request": dict(request),
    }
    return _queued(values, project, idempotency_key or uuid4(), options)


def _queued(values: Mapping[str, Any], project: Project | None, key: UUID, options: LaunchOptions) -> Job:
    """The job with this key. It is stored and enqueued if it does not exist."""
    if existing := Job.objects.filter(idempotency_key=key).first():
        return existing
    agreed = {
        "project": runnable(project),
        "start_at": options.start_at,
        "limits": dict(options.limits),
        "request_digest": request_digest(values["request"], options),
    }
    with transaction.atomic():
        if existing := Job.objects.filter(idempotency_key=key).first():
            return existing
        refuse_taken(values["kind"], values["location"], values.get("run"), values["branch"])
        kept = {REPEATABLE_EDITS: kept_edits(values["request"], project)}
        stored = {**values, "request": {**values["request"], **kept}}
        job = Job.objects.create(idempotency_key=key, **stored, **agreed)
        transaction.on_commit(lambda: enqueue(job))
    return job


def move_start(job: Job, start_at: datetime | None) -> bool:
    """Change the start time of a queued job; None means now. False if the job is no longer queued."""
    moved = job.move_start(start_at)
    if moved:
        enqueue(job)
    return moved


def run_here(job: Job, leaves: Callable[[], bool] = never) -> None:
    """Wait until the job has ended. A worker runs it, or this process if no worker is up.

    Returns early if it asks a question and ``leaves`` is true, or if it will not start: it missed its start
    time, or its sweep has used up a limit. Raises DataFolderFailure if the disk has no space for it. Ctrl-C
    cancels the job. The KeyboardInterrupt is raised once the job has ended.
    """
    interrupted: KeyboardInterrupt | None = None
    while not (job.has_ended or job.is_missed or _is_held(job) or (leaves() and is_asking(job))):
        try:
            if not worker_is_up():
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

"""Stores a job and its branch, once, and enqueues it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from viewer.data_folder.locks import exclusive_transaction
from viewer.data_folder.write_ahead_log import clear_log
from viewer.host_requests import CheckProject, JobRefused, ask
from viewer.launching.naming import kept_edits
from viewer.launching.requests import LaunchOptions, request_digest
from viewer.models import Checkpoint, Job, Location, Project, Run
from viewer.records.queue import enqueue
from viewer.records.runner_requests import REPEATABLE_EDITS

# Reserves a branch for a job. Called in the transaction that stores the job's row.


# The name of the transactions in which jobs are stored.
BRANCHES = "branches"


class BranchTaken(JobRefused):
    """Another job or checkpoint has the branch. Nothing was started."""


def refuse_taken(kind: str, location: Location, run: Run | None, branch: str) -> None:
    """Check that no other unfinished job writes to this branch, and that a fork's branch is new.

    Requires ``exclusive_transaction(BRANCHES)``, so that no other process stores a job between this check and
    the insert of the row. Raises BranchTaken.
    """
    if kind == Job.Kind.FORK and branch in location.taken_branches:
        raise BranchTaken("branch.exists", name=branch)
    if kind == Job.Kind.RESUME and Job.objects.unfinished().filter(run=run, branch=branch).exists():
        raise BranchTaken(
            "branch.in_use",
            name=branch,
        )


# Stores a job, once, and enqueues it.


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
    ask(CheckProject(project.pk if project else None))
    agreed = {
        "project": project,
        "start_at": options.start_at,
        "limits": dict(options.limits),
        "request_digest": request_digest(values["request"], options),
    }
    # Asks the project's host, so before others have to wait.
    kept = {REPEATABLE_EDITS: kept_edits(values["request"], project)}
    with exclusive_transaction(BRANCHES):
        if existing := Job.objects.filter(idempotency_key=key).first():
            return existing
        refuse_taken(values["kind"], values["location"], values.get("run"), values["branch"])
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


def request_cancel(job: Job) -> bool:
    """Cancel a queued job, or ask the follower of a running job to. Return False if the job has ended."""
    requested = job.request_cancel()
    if requested and job.has_ended:
        # The job never ran, so no follower clears the user's input from the write-ahead log.
        clear_log(attempts=1)
    return requested

"""Several forks of one checkpoint that are started together, and belong together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid5

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from viewer.jobs.execution.start import runnable
from viewer.jobs.queue.tasks import enqueue_if_ready
from viewer.launching.branch_reservation import refuse_taken
from viewer.launching.options import Terms
from viewer.models import Checkpoint, Job, Project, Sweep

AT_ONCE = Terms()


@dataclass(frozen=True, slots=True)
class Planned:
    """One fork of the group, as ``start_job`` takes one; ``words`` say what is special about it."""

    words: str
    branch: str
    request: Mapping[str, Any]
    plan: Sequence[Mapping[str, Any]]


def start_variations(
    checkpoint: Checkpoint,
    project: Project | None,
    name: str,
    forks: Sequence[Planned],
    key: UUID,
    terms: Terms = AT_ONCE,
    preload: str = "",
    requested_by: AbstractBaseUser | None = None,
) -> Sweep:
    """The group with its queued jobs, offered to the workers once all of them are committed.

    ``terms`` are when each may start, and how much all may use together. The same key finds the same group.
    Only the first job warms the prompt cache: what the agents have in common is warm for the others. Raises
    JobRefused where the project cannot run, and BranchTaken where one of the branches is another job's.
    """
    values = {
        "name": name,
        "checkpoint": checkpoint,
        "limits": dict(terms.limits),
        "requested_by": requested_by,
    }
    project = runnable(project)
    with transaction.atomic():
        group, is_new = Sweep.objects.get_or_create(idempotency_key=key, defaults=values)
        if is_new:
            jobs = [
                _job(group, project, number, fork, terms, preload if number == 1 else "")
                for number, fork in enumerate(forks, 1)
            ]
            transaction.on_commit(lambda: _offer_all(jobs))
    return group


def _offer_all(jobs: Sequence[Job]) -> None:
    for job in jobs:
        enqueue_if_ready(job)


def _job(group: Sweep, project: Project, number: int, fork: Planned, terms: Terms, preload: str) -> Job:
    checkpoint = group.checkpoint
    assert checkpoint is not None
    refuse_taken(Job.Kind.FORK, checkpoint.location, checkpoint.run, fork.branch)
    options = {**fork.request.get("options", {}), **({"cache_warmup": preload} if preload else {})}
    return Job.objects.create(
        idempotency_key=uuid5(group.idempotency_key, str(number)),
        kind=Job.Kind.FORK,
        location=checkpoint.location,
        run=checkpoint.run,
        checkpoint=checkpoint,
        project=project,
        requested_by=group.requested_by,
        branch=fork.branch,
        start_at=terms.start_at,
        request={**fork.request, "options": options},
        plan=[dict(step) for step in fork.plan],
        sweep=group,
        variation=fork.words[:300],
        # A moment apart, so that their order is the form's.
        created_at=group.created_at + timedelta(microseconds=number),
    )

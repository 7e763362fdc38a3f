"""Scores the end result of a sweep's branch, if its person named a function when starting the sweep."""

from collections.abc import Iterable
from uuid import UUID, uuid5

from viewer.jobs.execution.starting.request import request_for_score
from viewer.models import Job

# A function that does not end is stopped.
SCORE_SECONDS = 300


def score_key(job: Job) -> UUID:
    """The idempotency key of the job that scores this one's end result. It is scored at most once."""
    return uuid5(job.idempotency_key, "score")


def scoring_of(jobs: Iterable[Job]) -> dict[UUID, Job]:
    """The jobs that score these jobs' end results, by the id of the scored one."""
    keys = {score_key(job): job.pk for job in jobs}
    return {keys[one.idempotency_key]: one for one in Job.objects.filter(idempotency_key__in=keys)}


def queue_score(job: Job) -> Job | None:
    """Store the job that scores the end result of a succeeded job; the worker starts it.

    None if its sweep names no function, if it stopped at a breakpoint, or if it wrote no checkpoint.
    """
    function = job.sweep.score if job.sweep else ""
    if not function or job.status != Job.Status.SUCCEEDED or job.is_at_breakpoint or job.run is None:
        return None
    rows = job.run.checkpoints.filter(branch=job.branch).select_related("location", "run")
    end = rows.order_by("-row").first()
    if end is None:
        return None
    scoring, _is_new = Job.objects.get_or_create(
        idempotency_key=score_key(job),
        defaults={
            "kind": Job.Kind.SCORE,
            "location": end.location,
            "run": end.run,
            "checkpoint": end,
            "project": job.project,
            "requested_by": job.requested_by,
            "branch": job.branch,
            "request": dict(request_for_score(end, function)),
            "limits": {"seconds": SCORE_SECONDS},
        },
    )
    return scoring

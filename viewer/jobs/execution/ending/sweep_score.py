"""Scores the end result of a sweep's branch, if a scoring function was named when the sweep was started."""

from collections.abc import Iterable
from uuid import UUID, uuid5

from viewer.jobs.execution.starting.request import request_for_score
from viewer.models import Job

# A scoring function is stopped after this time.
SCORE_SECONDS = 300


def score_key(job: Job) -> UUID:
    """The idempotency key of the job that scores this job's end result, so that it is scored once."""
    return uuid5(job.idempotency_key, "score")


def scoring_of(jobs: Iterable[Job]) -> dict[UUID, Job]:
    """The scoring jobs of these jobs, by the id of the scored job."""
    keys = {score_key(job): job.pk for job in jobs}
    return {keys[one.idempotency_key]: one for one in Job.objects.filter(idempotency_key__in=keys)}


def queue_score(job: Job) -> Job | None:
    """Store the job that scores the end result of a succeeded job; the worker starts it.

    Returns None if its sweep has no scoring function, or if the job stopped at a breakpoint or wrote no
    checkpoint.
    """
    function = job.sweep.score if job.sweep else ""
    if not function or job.status != Job.Status.SUCCEEDED or job.is_at_breakpoint or job.run is None:
        return None
    rows = job.run.checkpoints.filter(recorded_branch=job.branch).select_related("location", "run")
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
            # It shares the limits of the sweep.
            "sweep": job.sweep,
            "requested_by": job.requested_by,
            "branch": job.branch,
            "request": dict(request_for_score(end, function)),
            "limits": {"seconds": SCORE_SECONDS},
        },
    )
    return scoring

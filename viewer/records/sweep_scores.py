"""The jobs that score the end results of a sweep."""

from collections.abc import Iterable
from uuid import UUID, uuid5

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

"""The jobs that score the end results of a sweep."""

from collections.abc import Iterable, Mapping
from uuid import UUID, uuid5

from viewer.models import Checkpoint, CollectionItem, Job, Sweep
from viewer.records.collections import checkpoints_of

# A scoring function is stopped after this time.
SCORE_SECONDS = 300


def score_key(job: Job) -> UUID:
    """The idempotency key of the job that scores this job's end result, so that it is scored once."""
    return uuid5(job.idempotency_key, "score")


def recorded_key(job: Job) -> UUID:
    """The idempotency key of the job that scores the recorded result next to that of this job."""
    return uuid5(job.idempotency_key, "recorded score")


def scoring_of(jobs: Iterable[Job]) -> dict[UUID, Job]:
    """The scoring jobs of these jobs, by the id of the scored job."""
    return _by_job({score_key(job): job.pk for job in jobs})


def recorded_scoring_of(jobs: Iterable[Job]) -> dict[UUID, Job]:
    """The jobs that score what was recorded before these jobs, by the ids of these."""
    return _by_job({recorded_key(job): job.pk for job in jobs})


def _by_job(keys: Mapping[UUID, UUID]) -> dict[UUID, Job]:
    return {keys[one.idempotency_key]: one for one in Job.objects.filter(idempotency_key__in=keys)}


def expected_answer(sweep: Sweep | None, checkpoint: Checkpoint | None) -> str:
    """The expected answer of the item with this checkpoint in the collection of a sweep; empty for none."""
    if sweep is None or sweep.collection is None or checkpoint is None:
        return ""
    found_items = sweep.collection.items.filter(checkpoint_id=checkpoint.checkpoint_id).exclude(expected="")
    # A message of the checkpoint may be an item as well.
    items = sorted(found_items, key=lambda item: item.kind != CollectionItem.Kind.CHECKPOINT)
    found = checkpoints_of(items)
    return next((item.expected for item in items if found.get(item.pk) == checkpoint), "")

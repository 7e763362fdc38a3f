"""The jobs that score the end results of a sweep."""

from collections.abc import Iterable, Mapping
from uuid import UUID, uuid5

from viewer.engines.recorded_calls import CallMessage, answer_in
from viewer.models import Checkpoint, Collection, CollectionItem, Job, Sweep
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


def whole_answer(job: Job, seq: int | None = None) -> CallMessage | None:
    """The first answer of a replay, or that of event ``seq``; None if it failed or is not whole."""
    events = job.events.filter(kind="call_replayed").order_by("seq")
    event = (events if seq is None else events.filter(seq=seq)).first()
    is_whole = event and not (event.data.get("error") or event.data.get("is_cut"))
    return answer_in(event.data) if event and is_whole else None


def expected_answer(sweep: Sweep | None, checkpoint: Checkpoint | None, call: str = "") -> str:
    """The expected answer of the item with this checkpoint, or a call of it, in the collection of a sweep.

    Empty if there is none.
    """
    if sweep is None or sweep.collection is None or checkpoint is None:
        return ""
    if call:
        return expected_of_calls(sweep.collection, checkpoint).get((checkpoint.pk, call), "")
    named = sweep.collection.items.filter(checkpoint_id=checkpoint.checkpoint_id).exclude(expected="")
    # A message of the checkpoint may be an item as well.
    found_items = named.exclude(kind=CollectionItem.Kind.CALL)
    items = sorted(found_items, key=lambda item: item.kind != CollectionItem.Kind.CHECKPOINT)
    found = checkpoints_of(items)
    return next((item.expected for item in items if found.get(item.pk) == checkpoint), "")


def expected_of_calls(
    collection: Collection, checkpoint: Checkpoint | None = None
) -> dict[tuple[int, str], str]:
    """The expected answers of the calls of a collection, or those of a checkpoint.

    By the key of the checkpoint and the name of the call.
    """
    items = collection.items.filter(kind=CollectionItem.Kind.CALL).exclude(expected="")
    if checkpoint:
        items = items.filter(checkpoint_id=checkpoint.checkpoint_id)
    found = checkpoints_of(items)
    return {(found[item.pk].pk, item.part): item.expected for item in items if item.pk in found}

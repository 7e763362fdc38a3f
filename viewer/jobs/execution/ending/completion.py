"""Marks the last checkpoint of a job with how the job ended. The engine wrote it before the run ended."""

from django.db import transaction
from django.db.models import F, QuerySet

from viewer.engines import engine_of
from viewer.engines.protocol import kind_of
from viewer.importing import is_indexed, update_statuses
from viewer.models import Checkpoint, Job, Run


def mark_end(job: Job, status: Job.Status, *, is_incomplete: bool) -> None:
    """Mark the last checkpoint that a job wrote, or from which it resumed, with the job's final status.

    ``is_incomplete`` means that the job could not write all of its checkpoints. Checkpoints of an indexed
    location record themselves how their run ended.
    """
    if is_indexed(job.location) or job.kind not in (Job.Kind.FORK, Job.Kind.RESUME, Job.Kind.RUN):
        return
    ids = job.events.filter(kind="checkpoint").order_by("-seq").values_list("data__id", flat=True)
    last_id = ids.first()
    last = Checkpoint.objects.filter(location=job.location, checkpoint_id=last_id or "")
    has_succeeded = status == Job.Status.SUCCEEDED
    if last_id is None and has_succeeded and job.kind == Job.Kind.RESUME and job.checkpoint_id:
        # Nothing was left to write.
        last = Checkpoint.objects.filter(pk=job.checkpoint_id)
    if has_succeeded and (is_incomplete or job.is_at_breakpoint):
        return
    with transaction.atomic():
        if has_succeeded:
            _complete_units(last)
        ended_as = Checkpoint.COMPLETED if has_succeeded else status.value
        last.update(ended_as=ended_as)
        update_statuses(set(last.values_list("run", flat=True)))


def _complete_units(last: QuerySet[Checkpoint]) -> None:
    """Mark checkpoints as complete that do not record how many units follow, or which were skipped."""
    for row in last.filter(units_done__gt=0).select_related("location"):
        kind = kind_of(engine_of(row.location), row.entity)
        # If another unit had run after this one, it would have written a later checkpoint.
        is_last = bool(kind.last_trigger) and row.trigger == kind.last_trigger and not row.units_total
        if is_last if kind.is_open_ended else row.units_done < row.units_total:
            Run.objects.filter(pk=row.run_id, units_known=row.units_done).update(all_units_known=True)
            last.filter(pk=row.pk).update(units_total=F("units_done"))

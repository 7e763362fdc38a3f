"""Marks the last checkpoint of a succeeded job complete. The engine wrote it before the run ended."""

from django.db import transaction
from django.db.models import F

from viewer.engines import engine_of
from viewer.models import Checkpoint, Job, Run


def mark_complete(job: Job) -> None:
    """Mark the job's last checkpoint complete if its kind does not know how many units follow."""
    last_id = job.events.filter(kind="checkpoint").order_by("-seq").values_list("data__id", flat=True).first()
    for kind in engine_of(job.location).kinds.values():
        if not (kind.is_open_ended and kind.last_trigger):
            continue
        # If another unit had run after this one, it would have written a later checkpoint.
        last = Checkpoint.objects.filter(
            location=job.location,
            checkpoint_id=last_id or "",
            entity=kind.name,
            trigger=kind.last_trigger,
            units_done__gt=0,
            units_total=0,
        )
        with transaction.atomic():
            for run, done in last.values_list("run", "units_done"):
                Run.objects.filter(pk=run, units_known=done).update(all_units_known=True)
            last.update(units_total=F("units_done"))

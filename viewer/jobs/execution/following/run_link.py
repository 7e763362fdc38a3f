"""Links the job of a new run to its imported run."""

from viewer.models import Checkpoint, Job


def link_run(job: Job) -> None:
    """Set the job's run once one of its checkpoints is imported. Idempotent.

    A fork or resume has its run from the start.
    """
    if job.kind != Job.Kind.RUN:
        return
    reported = job.events.filter(kind="checkpoint").order_by("seq").values_list("data__id", flat=True)
    rows = Checkpoint.objects.filter(
        location=job.location, checkpoint_id__in=[one for one in reported[:50] if one]
    )
    first = rows.order_by("row").values_list("run_id", flat=True).first()
    if first is not None:
        Job.objects.filter(pk=job.pk, run=None).update(run_id=first)

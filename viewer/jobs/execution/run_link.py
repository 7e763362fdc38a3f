"""Gives a new run's job the run that its checkpoints have become."""

from viewer.models import Checkpoint, Job


def link_run(job: Job) -> None:
    """Keep the job's run, once one of the checkpoints that it told is known. Again and again, from anywhere.

    A fork or resume has had its run from the start.
    """
    if job.kind != Job.Kind.RUN:
        return
    told = job.events.filter(kind="checkpoint").order_by("seq").values_list("data__id", flat=True)
    rows = Checkpoint.objects.filter(
        location=job.location, checkpoint_id__in=[one for one in told[:50] if one]
    )
    first = rows.order_by("row").values_list("run_id", flat=True).first()
    if first is not None:
        Job.objects.filter(pk=job.pk, run=None).update(run_id=first)

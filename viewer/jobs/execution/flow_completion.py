"""Keeps that a flow had finished with its job's last checkpoint, which was written too early to tell."""

from django.db import transaction
from django.db.models import F

from viewer.models import Checkpoint, Job, Run


def mark_flow_complete(job: Job) -> None:
    """Where the job has succeeded: nothing was left to do after the last method that it told as finished."""
    told = job.events.filter(kind="checkpoint").order_by("-seq").values_list("data__id", flat=True).first()
    # Written at a method's end, it would have been followed by another one if another method had run.
    last = Checkpoint.objects.filter(
        location=job.location,
        checkpoint_id=told or "",
        entity="flow",
        trigger="method_execution_finished",
        tasks_done__gt=0,
        tasks_total=0,
    )
    with transaction.atomic():
        for run, done in last.values_list("run", "tasks_done"):
            Run.objects.filter(pk=run, methods_known=done).update(methods_are_all=True)
        last.update(tasks_total=F("tasks_done"))

"""Remove old jobs and events of our own. What the lineage, a limit or a person needs stays."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from django.db import connection, transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.utils import DatabaseError
from django.utils import timezone

from viewer.data_folder.write_ahead_log import clear_log
from viewer.jobs.storage import storage_of
from viewer.models import Checkpoint, Job, JobEvent

# Events that other pages need after the job has ended: where it wrote checkpoints, and how it ended.
KEPT_EVENTS = (
    *("started", "steps", "checkpoint", "checkpoint_failed", "ended"),
    *("limit", "question", "answered"),
)
# Younger jobs count towards the limits of a day.
MIN_DAYS = 2
BATCH = 500


@dataclass(frozen=True, slots=True)
class Old:
    """What is old enough to be removed."""

    events: QuerySet[JobEvent]
    jobs: QuerySet[Job]


def old_data(event_days: int | None, job_days: int | None) -> Old:
    """The events of jobs that ended this many days ago, and the jobs that can be removed; none for None.

    Raises ValueError for fewer than ``MIN_DAYS``.
    """
    events = JobEvent.objects.none() if event_days is None else _events(event_days)
    return Old(events, Job.objects.none() if job_days is None else _jobs(job_days))


def _events(days: int) -> QuerySet[JobEvent]:
    return JobEvent.objects.filter(job__in=_ended_before(days)).exclude(kind__in=KEPT_EVENTS)


def _jobs(days: int) -> QuerySet[Job]:
    """Jobs that ended without a checkpoint. Others are part of a lineage: they say what a fork has edited."""
    written = JobEvent.objects.filter(job=OuterRef("pk"), kind="checkpoint")
    return _ended_before(days).exclude(status=Job.Status.SUCCEEDED).filter(~Exists(written))


def _ended_before(days: int) -> QuerySet[Job]:
    if days < MIN_DAYS:
        raise ValueError(f"at least {MIN_DAYS} days")
    return Job.objects.ended().filter(ended_at__lt=timezone.now() - timedelta(days=days))


def remove(old: Old, is_stopping: Callable[[], bool] = lambda: False) -> tuple[int, int]:
    """Remove what is old. Returns how many events and jobs that were. Ends early once it ``is_stopping``."""
    events = 0
    while not is_stopping() and (pks := list(old.events.order_by().values_list("pk", flat=True)[:BATCH])):
        events += JobEvent.objects.filter(pk__in=pks).delete()[0]
    jobs = 0
    for job in old.jobs.order_by("pk"):
        if is_stopping():
            break
        jobs += _remove_job(job)
    if events or jobs:
        # Deleted pages may still be in the log.
        clear_log()
    return events, jobs


def _remove_job(job: Job) -> bool:
    """Remove a job and its folder, unless a checkpoint is in its folder's scratch store."""
    storage = storage_of(job)
    prefix = f"{Checkpoint.SCRATCH}{job.pk}/"
    if storage.has_runner() or Checkpoint.objects.filter(source_key__startswith=prefix).exists():
        return False
    with transaction.atomic():
        Job.objects.filter(pk=job.pk).delete()
    # After the row: a folder without a row is only space, a row without its folder is a fault.
    storage.delete()
    return True


def compact() -> bool:
    """Give the free pages of the database back to the file system. False if others use it now.

    Takes as much free space on the disk as the database has.
    """
    try:
        with connection.cursor() as cursor:
            cursor.execute("VACUUM")
    except DatabaseError:
        return False
    clear_log()
    return True

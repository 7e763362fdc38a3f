"""How much Forkline stores itself, and removing what is old. Locations are never touched."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count, Exists, OuterRef, QuerySet, Sum, TextField
from django.db.models.functions import Cast, Length
from django.db.utils import DatabaseError
from django.utils import timezone
from django.utils.translation import gettext as _

from viewer import postgresql
from viewer.data_folder.database_file import clear_log
from viewer.data_folder.failures import database_path
from viewer.data_folder.locks import lock_named
from viewer.host.jobs.files import storage_of, storages
from viewer.host_requests import DraftFile, StoredKind
from viewer.models import BucketObject, Checkpoint, Job, JobEvent, RecordedCode, StoredCopy
from viewer.records import bucket
from viewer.records.audit import Action, ActorKind, Audited, acting_for, delete_before, record
from viewer.records.locations import drafts_of

logger = logging.getLogger("forkline.retention")

# Drafts: forks in the scratch stores of their jobs, which hold real values and are deleted when unneeded.


def draft_files() -> list[DraftFile]:
    """Return the scratch stores of all jobs, the newest first."""
    found = filter(None, (storage.draft() for storage in storages("jobs")))
    return sorted(found, key=lambda one: one.written_at, reverse=True)


def delete_drafts() -> int:
    """Delete the scratch stores that are no longer needed. Return the number deleted."""
    stored, now = draft_files(), timezone.now()
    drafts = zip(stored, drafts_of(stored), strict=True)
    unneeded = {one.job for one, draft in drafts if draft.removed_at is not None and draft.removed_at <= now}
    starts = Checkpoint.objects.filter(Checkpoint.IS_SCRATCH, jobs__in=Job.objects.unfinished())
    unneeded -= {checkpoint.scratch_job for checkpoint in starts.only("source_key")}
    for storage in storages("jobs"):
        if storage.name in unneeded:
            storage.delete_draft()
    return len(unneeded)


# The sizes of what the data folder holds.


def sizes() -> Iterator[StoredKind]:
    """What is stored, the database as a whole first."""
    yield StoredKind(_("Database"), None, database_size())
    stored = StoredCopy.objects.with_body()
    copies = stored.aggregate(size=Sum(Length("data") + Length("event_ids")))["size"]
    yield StoredKind(_("Stored copies of checkpoints"), stored.count(), copies or 0)
    if bucket.is_used():
        objects = BucketObject.objects.aggregate(count=Count("pk"), size=Sum("size"))
        yield StoredKind(_("Stored copies in the bucket"), objects["count"], objects["size"] or 0)
    events = JobEvent.objects.aggregate(size=Sum(Length(Cast("data", TextField()))))["size"]
    yield StoredKind(_("Events of jobs"), JobEvent.objects.count(), events or 0)
    jobs = Job.objects.only("pk")
    yield StoredKind(_("Jobs, with their folders"), jobs.count(), sum(storage_of(job).size() for job in jobs))
    drafts = draft_files()
    yield StoredKind(_("Drafts, within these folders"), len(drafts), sum(draft.size for draft in drafts))


def database_size() -> int:
    """The bytes of the database on its disk."""
    if postgresql.is_used():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_database_size(current_database())")
            return int(cursor.fetchone()[0])
    parts = [database_path(), *(Path(f"{database_path()}{ending}") for ending in ("-wal", "-shm"))]
    return sum(part.stat().st_size for part in parts if part.exists())


# Remove old jobs and events of our own. What the lineage, a limit or a person needs stays.


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
    return Job.objects.ended().here().filter(ended_at__lt=timezone.now() - timedelta(days=days))


def remove(old: Old, is_stopping: Callable[[], bool] = lambda: False) -> tuple[int, int]:
    """Remove what is old. Returns how many events and jobs that were. Ends early once it ``is_stopping``."""
    events = 0
    while not is_stopping() and (pks := list(old.events.order_by().values_list("pk", flat=True)[:BATCH])):
        events += JobEvent.objects.filter(pk__in=pks).delete()[0]
    jobs = 0
    for job in old.jobs.order_by("pk"):
        if is_stopping():
            break
        try:
            jobs += _remove_job(job)
        except OSError:
            # A run may have closed its folder. The other jobs are removed.
            logger.exception("removing job %s", job.pk)
    RecordedCode.objects.filter(jobs=None).delete()
    if events or jobs:
        record(Action.PRUNED, Audited.JOB, detail=f"{events} events and {jobs} jobs")
        # Deleted pages may still be in the log.
        clear_log()
    return events, jobs


def _remove_job(job: Job) -> bool:
    """Remove a job and its folder, unless a checkpoint is in its folder's scratch store."""
    storage = storage_of(job)
    drafts = Checkpoint.objects.filter(source_key__startswith=Checkpoint.scratch_prefix(job.pk))
    if storage.has_runner() or drafts.exists():
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
        if postgresql.is_used():
            # Others wait meanwhile, so it gives up soon. Its session is its own, and so is the limit.
            with postgresql.connected() as session, connection.wrap_database_errors:
                session.execute("SET lock_timeout = '5s'")
                session.execute("VACUUM (FULL)")
        else:
            with connection.cursor() as cursor:
                cursor.execute("VACUUM")
    except DatabaseError:
        return False
    clear_log()
    return True


# Removing old data once a day, by the rules of the settings.


# The lock's note is the day on which a process began to remove, so that others do not.
LOCK = "retention"


def remove_once_a_day(is_stopping: Callable[[], bool] = lambda: False) -> tuple[int, int] | None:
    """Remove what the settings call old. Returns how many events and jobs; None if it was not due.

    Only one process does so on a day. What is left when it ``is_stopping`` waits for the next day.
    """
    days = settings.RETENTION_EVENT_DAYS, settings.RETENTION_JOB_DAYS
    audit_days = settings.RETENTION_AUDIT_DAYS
    today = timezone.now().date().isoformat()
    lock = lock_named(LOCK)
    if {*days, audit_days} == {None} or lock.note() == today:
        return None
    with lock.held(note=today) as is_ours:
        if not is_ours:
            return None
        with acting_for({"kind": ActorKind.SERVER, "name": ""}):
            events, jobs = remove(old_data(*days), is_stopping)
            if audit_days is not None:
                delete_before(audit_days)
    if events or jobs:
        logger.info("removed %d events and %d jobs", events, jobs)
    return events, jobs

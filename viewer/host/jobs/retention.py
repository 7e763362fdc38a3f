"""How much Forkline stores itself, and removing what is old. Locations are never touched."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, OuterRef, QuerySet, Sum
from django.db.models.functions import Length
from django.db.utils import DatabaseError
from django.utils import timezone
from django.utils.translation import gettext as _

from viewer.data_folder.locks import lock_named
from viewer.data_folder.write_ahead_log import clear_log
from viewer.host.jobs.files import JobStorage, job_storages, storage_of
from viewer.models import Checkpoint, Job, JobEvent, Location, StoredCopy

# Drafts: forks in the scratch stores of their jobs, which hold real values and are deleted when unneeded.


@dataclass(frozen=True, slots=True)
class StoredDraft:
    """The file of a scratch store, with its size in bytes."""

    storage: JobStorage
    written_at: datetime
    size: int


@dataclass(frozen=True, slots=True)
class Draft:
    """A scratch store. ``job`` is None if its row is gone.

    ``removed_at`` is when it may be deleted: None while its job runs, and as long as it may be published.
    """

    job: Job | None
    written_at: datetime
    size: int
    checkpoints: int
    removed_at: datetime | None


def stored_drafts() -> list[StoredDraft]:
    """Return the scratch stores of all jobs, the newest first."""
    found = []
    for storage in job_storages():
        if (file := storage.scratch_store()) is not None:
            found.append(StoredDraft(storage, datetime.fromtimestamp(file.written_at, UTC), file.size))
    return sorted(found, key=lambda one: one.written_at, reverse=True)


def drafts_of(stored: Sequence[StoredDraft]) -> list[Draft]:
    """Return what these scratch stores hold, in the same order, and when they are deleted."""
    names = [one.storage.name for one in stored]
    jobs = {str(job.pk): job for job in Job.objects.filter(pk__in=names).select_related("run", "location")}
    return [_draft_of(one, jobs.get(one.storage.name)) for one in stored]


def delete_drafts() -> int:
    """Delete the scratch stores that are no longer needed. Return the number deleted."""
    stored, now, deleted = stored_drafts(), timezone.now(), 0
    for one, draft in zip(stored, drafts_of(stored), strict=True):
        if draft.removed_at is not None and draft.removed_at <= now:
            one.storage.delete_scratch_store()
            deleted += 1
    return deleted


def _draft_of(stored: StoredDraft, job: Job | None) -> Draft:
    prefix = f"{Checkpoint.SCRATCH}{stored.storage.name}/"
    locations = Location.objects.filter(pk=job.location_id) if job else Location.objects.all()
    # A range of keys, unlike a search for a prefix, uses the index. "0" follows "/".
    keys = {"source_key__gte": prefix, "source_key__lt": f"{prefix[:-1]}0"}
    count = Checkpoint.objects.filter(location__in=locations.values("pk"), **keys).count()
    return Draft(job, stored.written_at, stored.size, count, _removal(stored, job, prefix, count))


def _removal(stored: StoredDraft, job: Job | None, prefix: str, checkpoints: int) -> datetime | None:
    """Return when a scratch store is no longer needed; None if that is not known yet."""
    later = timedelta(days=settings.SCRATCH_DAYS)
    if job is None:
        # Its row may be in a backup that is restored later.
        return stored.written_at + later
    if not job.has_ended or job.ended_at is None:
        return None
    if job.run_id is None:
        return job.ended_at
    if checkpoints and not _is_published(job, prefix):
        return None
    return job.ended_at + later


def _is_published(job: Job, prefix: str) -> bool:
    later = Job.objects.filter(kind=Job.Kind.PUBLISH, checkpoint__source_key__startswith=prefix)
    jobs = [job.pk, *later.values_list("pk", flat=True)]
    return JobEvent.objects.filter(kind="published", job__in=jobs).exists()


# The sizes of what the data folder holds.


@dataclass(frozen=True, slots=True)
class Stored:
    """One kind of data: how many there are, None if they are not counted, and their size in bytes."""

    label: str
    count: int | None
    size: int


def sizes() -> Iterator[Stored]:
    """What is stored, the database as a whole first."""
    database = Path(str(settings.DATABASES["default"]["NAME"]))
    parts = [database, *(Path(f"{database}{ending}") for ending in ("-wal", "-shm"))]
    yield Stored(_("Database"), None, sum(part.stat().st_size for part in parts if part.exists()))
    stored = StoredCopy.objects.exclude(data=b"")
    copies = stored.aggregate(size=Sum(Length("data") + Length("event_ids")))["size"]
    yield Stored(_("Stored copies of checkpoints"), stored.count(), copies or 0)
    events = JobEvent.objects.aggregate(size=Sum(Length("data")))["size"]
    yield Stored(_("Events of jobs"), JobEvent.objects.count(), events or 0)
    jobs = Job.objects.only("pk")
    yield Stored(_("Jobs, with their folders"), jobs.count(), sum(map(_folder_size, jobs)))
    drafts = stored_drafts()
    yield Stored(_("Drafts, within these folders"), len(drafts), sum(draft.size for draft in drafts))


def _folder_size(job: Job) -> int:
    try:
        return storage_of(job).size()
    except OSError:
        return 0


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


# Removing old data once a day, by the rules of the settings.


logger = logging.getLogger("forkline.retention")

# The lock's note is the day on which a process began to remove, so that others do not.
LOCK = "retention"


def remove_once_a_day(is_stopping: Callable[[], bool] = lambda: False) -> tuple[int, int] | None:
    """Remove what the settings call old. Returns how many events and jobs; None if it was not due.

    Only one process does so on a day. What is left when it ``is_stopping`` waits for the next day.
    """
    days = settings.RETENTION_EVENT_DAYS, settings.RETENTION_JOB_DAYS
    today = timezone.now().date().isoformat()
    lock = lock_named(LOCK)
    if days == (None, None) or lock.note() == today:
        return None
    with lock.held(note=today) as is_ours:
        if not is_ours:
            return None
        events, jobs = remove(old_data(*days), is_stopping)
    if events or jobs:
        logger.info("removed %d events and %d jobs", events, jobs)
    return events, jobs

"""The workers that serve this data folder, and jobs and processes that none of them follows."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from uuid import UUID

import psutil
from django.conf import settings

from viewer.data_folder.locks import Lock, lock_named
from viewer.host.jobs import processes
from viewer.host.jobs.environment import MARKER
from viewer.host.jobs.files import storage_of
from viewer.models import Job

# The workers that serve this data folder.


def _lock() -> Lock:
    """The lock that each worker holds, shared, while it runs."""
    return lock_named("worker")


@contextmanager
def serving(slots: int) -> Iterator[None]:
    """Register this process as a worker with this many slots within the block."""
    # Another process that tests the lock holds it exclusively for a moment.
    with _lock().held(shared=True, wait=True, note=str(slots)):
        yield


def worker_is_up() -> bool:
    """Whether a worker serves this data folder."""
    return _lock().is_held(shared=True)


def slots() -> int:
    """The number of slots of the newest worker; 0 if no worker has recorded it."""
    note = _lock().note()
    return int(note) if note.isdecimal() else 0


# Ends jobs and processes that no process follows, while no worker is up.


logger = logging.getLogger(__name__)


def orphaned_jobs() -> list[Job]:
    """Running jobs that no process follows. They may be followed again, never started again."""
    return [job for job in Job.objects.under_way() if not storage_of(job).is_followed()]


def finish_orphans() -> list[Job]:
    """Finish the orphaned jobs whose runner has exited, unless a worker is up. Returns these jobs.

    Starts no job. Jobs whose runner still runs are left unchanged.
    """
    if worker_is_up():
        return []
    # Imported here: most commands find no orphan.
    from viewer.host.jobs.following import ensure_finished

    finished = []
    for job in orphaned_jobs():
        try:
            # Finishing a job whose runner is alive would wait for it.
            if processes.is_gone(job.process_id, storage_of(job)):
                ensure_finished(job)
                finished.append(job)
        except Exception:
            # The calling command continues. The next command tries again.
            logger.exception("finishing job %s", job.pk)
    return finished


def end_orphan_processes() -> list[Job]:
    """End processes of jobs that have ended. Returns these jobs."""
    marked: set[UUID] = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError, ValueError):
            if marker := process.environ().get(MARKER):
                marked.add(UUID(marker))
    ended = []
    for job in Job.objects.ended().filter(pk__in=marked):
        storage = storage_of(job)
        # A follower may be about to end them.
        if not storage.is_followed() and processes.tree_of(storage):
            processes.end_all(storage, patience=settings.CANCEL_GRACE_SECONDS)
            ended.append(job)
    return ended

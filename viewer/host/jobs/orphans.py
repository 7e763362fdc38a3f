"""Ends jobs and processes that no process follows, while no worker is up."""

import logging
from contextlib import suppress
from uuid import UUID

import psutil
from django.conf import settings

from viewer.data_folder.locks import worker_is_up
from viewer.host.jobs import processes
from viewer.host.jobs.environment import MARKER
from viewer.host.jobs.files import storage_of
from viewer.models import Job

logger = logging.getLogger(__name__)


def orphaned_jobs() -> list[Job]:
    """Running jobs of this machine that no process follows. They are followed again, never started again."""
    return [job for job in Job.objects.under_way().here() if not storage_of(job).is_followed()]


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
    for job in Job.objects.ended().here().filter(pk__in=marked):
        storage = storage_of(job)
        # A follower may be about to end them.
        if not storage.is_followed() and processes.tree_of(storage):
            processes.end_all(storage, patience=settings.CANCEL_GRACE_SECONDS)
            ended.append(job)
    return ended

"""Brings jobs to their end whose follower was killed, where no worker is there to do so."""

import logging
from contextlib import suppress
from uuid import UUID

import psutil
from django.conf import settings

from viewer.jobs import locks
from viewer.jobs.execution import processes
from viewer.jobs.execution.environment import MARKER
from viewer.jobs.execution.follow import ensure_finished, is_gone
from viewer.jobs.queue.tasks import orphaned_jobs
from viewer.models import Job

logger = logging.getLogger(__name__)


def finish_orphans() -> list[Job]:
    """End the jobs under way whose child is gone and that nobody follows. Returns them as they ended.

    None is started, and none whose child still runs is touched: that run goes on. A worker does this itself.
    """
    if locks.worker_is_up():
        return []
    settled = []
    for job in orphaned_jobs():
        try:
            # Claimed but never started, or ended: where it is alive, it would be waited for.
            if is_gone(job):
                ensure_finished(job)
                settled.append(job)
        except Exception:
            # What was asked for is done all the same; the next command tries again.
            logger.exception("settling job %s", job.pk)
    return settled


def end_orphan_processes() -> list[Job]:
    """End what still runs of jobs that have ended. Returns those jobs."""
    marked: set[UUID] = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError, ValueError):
            if marker := process.environ().get(MARKER):
                marked.add(UUID(marker))
    ended = []
    for job in Job.objects.ended().filter(pk__in=marked):
        # Its follower may be about to do so.
        if not locks.is_held(job.folder / locks.FOLLOWER) and processes.tree_of(job.folder):
            processes.end_all(job.folder, patience=settings.CANCEL_GRACE_SECONDS)
            ended.append(job)
    return ended

"""What a worker does: takes jobs from the queue, and follows on what others left."""

import fcntl
import logging
import os
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from django.conf import settings
from django.db import close_old_connections, connection
from django_tasks_db.management.commands.db_worker import Worker
from django_tasks_db.models import DBTaskResult

from viewer.data_folder import DataFolderFailure, failure_words
from viewer.data_folder.identity import what_changed
from viewer.data_folder.write_ahead_log import clear_if_pending
from viewer.jobs.execution.follow import ensure_finished, stopping
from viewer.jobs.execution.redact_again import redact_jobs_again
from viewer.jobs.locks import record_slots, worker_lock
from viewer.jobs.prewarm import client
from viewer.jobs.prewarm.pool import PrewarmPool, end_all, maintain
from viewer.jobs.queue.data_changes import changes_of
from viewer.jobs.queue.tasks import delete_old_entries, orphaned_jobs, requeue_missing
from viewer.models import Job, Project

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.05
# How often it is looked for jobs that nobody follows, and for queued ones that may start by now.
ADOPT_SECONDS = 2.0
# The same where no job waits or runs: one that comes is written to the database, which wakes the worker.
QUIET_ADOPT_SECONDS = 10.0
# Stopping, and starting what shall be warm, wait no longer than this.
IDLE_SECONDS = 0.5
PRUNE_SECONDS = 3600
# After a failure, such as a full disk.
FAILED_SECONDS = 1.0
# Following on costs next to nothing, and was paid for: it does not wait for a free place.
MAX_ADOPTED = 64


@dataclass
class WorkerState:
    """What this worker has in hand."""

    jobs_at_once: int
    starters: ThreadPoolExecutor
    followers: ThreadPoolExecutor
    starting: set[Future[None]] = field(default_factory=set)
    adopted: dict[UUID, Future[None]] = field(default_factory=dict)
    looked: float = float("-inf")
    # No job waited or ran when it was last looked.
    is_quiet: bool = False
    pruned: float = float("-inf")
    warming: PrewarmPool = field(default_factory=PrewarmPool)


def work(jobs_at_once: int) -> None:
    """Serve this data folder until ``stopping`` is set. Children of jobs under way live on.

    Raises DataFolderFailure where the data folder is gone or replaced.
    """
    changed = ""
    lock = os.open(worker_lock(), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    # Waits for who only asks whether a worker is up, and holds it alone for that moment.
    fcntl.flock(lock, fcntl.LOCK_SH)
    record_slots(lock, jobs_at_once)
    with ThreadPoolExecutor(jobs_at_once) as starters, ThreadPoolExecutor(MAX_ADOPTED) as followers:
        state = WorkerState(jobs_at_once, starters, followers)
        changes = changes_of([Path(settings.DATA_DIR), client.folder()], lock)
        is_changed = True
        while not stopping.is_set():
            if changed := what_changed():
                # Followers end with it, and leave their runs alone.
                stopping.set()
                break
            try:
                maintain(state.warming)
                if is_changed or is_poll_due(state):
                    follow_orphans(state)
                    start_ready(state)
            except Exception as error:
                # Such as a database that is locked for long: what was missed is there at the next look.
                if not what_changed():
                    log_failure(error)
                close_old_connections()
                stopping.wait(FAILED_SECONDS)
            # Many writes in a row are looked at together.
            stopping.wait(POLL_SECONDS if is_changed else 0)
            is_changed = changes.wait(IDLE_SECONDS)
        end_all(state.warming)
    changes.close()
    os.close(lock)
    if changed:
        raise DataFolderFailure(changed)


def log_failure(error: Exception) -> None:
    """Log why it could not be looked for jobs: in one line where it is known what to do about it."""
    if words := failure_words(error):
        logger.error("%s", words)
    else:
        logger.exception("looking for jobs")


def is_poll_due(state: WorkerState) -> bool:
    """Whether to look although nobody has written to the database: times come, and processes end."""
    return time.monotonic() - state.looked >= (QUIET_ADOPT_SECONDS if state.is_quiet else ADOPT_SECONDS)


def start_ready(state: WorkerState) -> None:
    """Give each free place a job, where the queue has one."""
    state.starting = {one for one in state.starting if not one.done()}
    if len(state.starting) < state.jobs_at_once and DBTaskResult.objects.ready().exists():
        state.starting.add(state.starters.submit(run_next))


def run_next() -> None:
    """Take the queue's next entry, if it is still there, and bring its job to its end."""
    try:
        Worker(
            queue_names=["*"],
            excluded_queue_names=[],
            interval=0,
            batch=True,
            backend_name="default",
            startup_delay=False,
            max_tasks=1,
            worker_id=f"{os.getpid()}-{time.monotonic_ns()}",
        ).run()
    except Exception:
        logger.exception("taking a job from the queue")
    finally:
        connection.close()


def follow_orphans(state: WorkerState) -> None:
    """Follow on the jobs that nobody follows, and offer those that may start and are not in the queue."""
    if time.monotonic() - state.looked < ADOPT_SECONDS:
        return
    state.looked = time.monotonic()
    state.adopted = {pk: one for pk, one in state.adopted.items() if not one.done()}
    for job in orphaned_jobs():
        if job.pk not in state.adopted:
            state.adopted[job.pk] = state.followers.submit(follow_orphan, job)
    requeue_missing()
    state.is_quiet = not (state.adopted or Job.objects.unfinished().exists())
    clear_if_pending()
    if time.monotonic() - state.pruned > PRUNE_SECONDS:
        state.pruned = time.monotonic()
        delete_old_entries()
        for project in Project.objects.all():
            redact_jobs_again(project)


def follow_orphan(job: Job) -> None:
    try:
        ensure_finished(job)
    except Exception:
        logger.exception("following %s", job.pk)
    finally:
        connection.close()

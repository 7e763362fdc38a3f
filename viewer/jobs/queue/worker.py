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
from viewer.jobs.execution.follow import carry, stopping
from viewer.jobs.execution.redact_again import hide_known_secrets_of_jobs
from viewer.jobs.locks import note_places, worker_lock
from viewer.jobs.prewarm import client
from viewer.jobs.prewarm.pool import Warming, keep_warm, stop
from viewer.jobs.queue.data_changes import changes_of
from viewer.jobs.queue.tasks import offer_lost, orphans, prune_entries
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
MOST_ADOPTED = 64


@dataclass
class Work:
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
    warming: Warming = field(default_factory=Warming)


def work(jobs_at_once: int) -> None:
    """Serve this data folder until ``stopping`` is set. Children of jobs under way live on.

    Raises DataFolderFailure where the data folder is gone or replaced.
    """
    changed = ""
    lock = os.open(worker_lock(), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    # Waits for who only asks whether a worker is up, and holds it alone for that moment.
    fcntl.flock(lock, fcntl.LOCK_SH)
    note_places(lock, jobs_at_once)
    with ThreadPoolExecutor(jobs_at_once) as starters, ThreadPoolExecutor(MOST_ADOPTED) as followers:
        state = Work(jobs_at_once, starters, followers)
        changes = changes_of([Path(settings.DATA_DIR), client.folder()], lock)
        is_changed = True
        while not stopping.is_set():
            if changed := what_changed():
                # Followers end with it, and leave their runs alone.
                stopping.set()
                break
            try:
                keep_warm(state.warming)
                if is_changed or is_time_to_look(state):
                    adopt(state)
                    start_ready(state)
            except Exception as error:
                # Such as a database that is locked for long: what was missed is there at the next look.
                if not what_changed():
                    note_failure(error)
                close_old_connections()
                stopping.wait(FAILED_SECONDS)
            # Many writes in a row are looked at together.
            stopping.wait(POLL_SECONDS if is_changed else 0)
            is_changed = changes.wait(IDLE_SECONDS)
        stop(state.warming)
    changes.close()
    os.close(lock)
    if changed:
        raise DataFolderFailure(changed)


def note_failure(error: Exception) -> None:
    """Log why it could not be looked for jobs: in one line where it is known what to do about it."""
    if words := failure_words(error):
        logger.error("%s", words)
    else:
        logger.exception("looking for jobs")


def is_time_to_look(state: Work) -> bool:
    """Whether to look although nobody has written to the database: times come, and processes end."""
    return time.monotonic() - state.looked >= (QUIET_ADOPT_SECONDS if state.is_quiet else ADOPT_SECONDS)


def start_ready(state: Work) -> None:
    """Give each free place a job, where the queue has one."""
    state.starting = {one for one in state.starting if not one.done()}
    if len(state.starting) < state.jobs_at_once and DBTaskResult.objects.ready().exists():
        state.starting.add(state.starters.submit(take_one))


def take_one() -> None:
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


def adopt(state: Work) -> None:
    """Follow on the jobs that nobody follows, and offer those that may start and are not in the queue."""
    if time.monotonic() - state.looked < ADOPT_SECONDS:
        return
    state.looked = time.monotonic()
    state.adopted = {pk: one for pk, one in state.adopted.items() if not one.done()}
    for job in orphans():
        if job.pk not in state.adopted:
            state.adopted[job.pk] = state.followers.submit(carry_on, job)
    offer_lost()
    state.is_quiet = not (state.adopted or Job.objects.unfinished().exists())
    clear_if_pending()
    if time.monotonic() - state.pruned > PRUNE_SECONDS:
        state.pruned = time.monotonic()
        prune_entries()
        for project in Project.objects.all():
            hide_known_secrets_of_jobs(project)


def carry_on(job: Job) -> None:
    try:
        carry(job)
    except Exception:
        logger.exception("following %s", job.pk)
    finally:
        connection.close()

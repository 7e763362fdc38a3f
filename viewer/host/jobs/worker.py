"""The worker: runs queued jobs, and follows running jobs whose follower has exited."""

import logging
import os
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from django.db import close_old_connections, connection
from django.utils import timezone
from django_tasks import task
from django_tasks_db.management.commands.db_worker import Worker
from django_tasks_db.models import DBTaskResult

from viewer.data_folder.changes import changes_of_data
from viewer.data_folder.failures import DataFolderFailure, has_room
from viewer.data_folder.identity import what_changed
from viewer.data_folder.write_ahead_log import clear_if_pending
from viewer.host.jobs import prewarm
from viewer.host.jobs.following import ensure_finished, stopping
from viewer.host.jobs.orphans import orphaned_jobs, serving
from viewer.host.jobs.prewarm import PrewarmPool, end_all, maintain
from viewer.host.jobs.redact_again import redact_jobs_again
from viewer.host.jobs.retention import delete_drafts, remove_once_a_day
from viewer.models import Job, Project
from viewer.records.limits import reached_shared_limit

# Delays the jobs of a sweep while its first job warms up the prompt cache.


# The warm-up only saves time and tokens, so the wait for it is limited.
MAX_SECONDS = 90


def waits_for_cache_warmup(job: Job) -> bool:
    """Whether the first job of the sweep still warms up the cache, for at most ``MAX_SECONDS``."""
    if job.sweep is None or job.kind == Job.Kind.SCORE:
        return False
    first = job.sweep.branches.first()
    if first is None or first.pk == job.pk or first.has_ended:
        return False
    if not first.request.get("options", {}).get("cache_warmup"):
        return False
    if first.started_at and timezone.now() - first.started_at > timedelta(seconds=MAX_SECONDS):
        return False
    return not first.events.filter(kind__in=["cache_warmed", "task_started", "ended"]).exists()


# The queue as rows of Django's tasks framework.


@task()
def run_job(job_id: str) -> None:
    """Run a job to its end, unless another process does. Running it twice is harmless."""
    job = Job.objects.filter(pk=UUID(job_id)).first()
    if job is not None:
        ensure_finished(job)


class TaskQueue:
    """A ``JobQueue`` in the database."""

    def add(self, job: UUID) -> None:
        run_job.enqueue(str(job))

    def waiting(self) -> set[UUID]:
        ready = DBTaskResult.objects.ready().filter(task_path=run_job.module_path)
        return {_job_of(arguments) for arguments in ready.values_list("args_kwargs", flat=True)}

    def run_next(self) -> None:
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

    def delete(self, added_before: datetime, unfinished: Collection[UUID]) -> int:
        old = DBTaskResult.objects.filter(task_path=run_job.module_path, enqueued_at__lt=added_before)
        entries = old.values_list("pk", "args_kwargs")
        ended = [pk for pk, arguments in entries if _job_of(arguments) not in unfinished]
        return DBTaskResult.objects.filter(pk__in=ended).delete()[0]


def _job_of(arguments: dict[str, list[str]]) -> UUID:
    return UUID(arguments["args"][0])


# The queue of jobs, behind one interface. It holds only ids; the job's row says whether it may start.


class JobQueue(Protocol):
    """Entries with the ids of jobs. One worker claims each entry, in the order in which they were added."""

    def add(self, job: UUID) -> None:
        """Add an entry, as part of the current transaction."""

    def waiting(self) -> set[UUID]:
        """The jobs of the entries that no worker has claimed."""

    def run_next(self) -> None:
        """Claim the next entry and run its job to its end. Does nothing if no entry waits."""

    def delete(self, added_before: datetime, unfinished: Collection[UUID]) -> int:
        """Delete older entries, except those of ``unfinished`` jobs. Return the number deleted."""


def job_queue() -> JobQueue:
    """The queue of this data folder."""
    return TaskQueue()


# Which jobs are in the queue: those that may start now.


# How long the queue keeps the entries of ended jobs.
KEPT_FOR = timedelta(days=1)


def enqueue(job: Job) -> None:
    """Put the job into the queue."""
    job_queue().add(job.pk)


def enqueue_if_ready(job: Job) -> None:
    """Enqueue the job if it may start now. Otherwise ``requeue_missing`` does later."""
    if Job.objects.due().filter(pk=job.pk).exists() and _has_room(job):
        enqueue(job)


def requeue_missing() -> int:
    """Enqueue jobs that may start and have no queue entry. Return their number.

    Such jobs have become due, are no longer held back by a limit, or have lost their entry.
    """
    Job.objects.mark_due()
    waiting = job_queue().waiting()
    due = Job.objects.due().order_by("created_at")
    missing = [job for job in due if job.pk not in waiting and _has_room(job)]
    for job in missing:
        enqueue(job)
    return len(missing)


def delete_old_entries() -> int:
    """Delete the queue entries of jobs that ended long ago, not the jobs. Return the number deleted."""
    unfinished = set(Job.objects.unfinished().values_list("pk", flat=True))
    return job_queue().delete(timezone.now() - KEPT_FOR, unfinished)


def _has_room(job: Job) -> bool:
    """Whether neither a shared limit nor the cache warm-up of its sweep delays the job."""
    return reached_shared_limit(job) is None and not waits_for_cache_warmup(job)


# The worker: runs queued jobs, and follows running jobs whose follower has exited.


logger = logging.getLogger(__name__)

POLL_SECONDS = 0.05
# How often the worker searches for orphaned jobs, and for queued jobs that may start.
ADOPT_SECONDS = 2.0
# The same without unfinished jobs. A new job is a write to the database, which wakes the worker.
QUIET_ADOPT_SECONDS = 10.0
# The longest delay before the worker stops or prewarms a process.
IDLE_SECONDS = 0.5
PRUNE_SECONDS = 3600
# The pause after a failure, such as a full disk.
FAILED_SECONDS = 1.0
# Following is cheap, and the run already costs money, so it does not occupy a slot.
MAX_ADOPTED = 64


@dataclass
class WorkerState:
    """The threads of this worker and what they do. Times are on the monotonic clock."""

    jobs_at_once: int
    starters: ThreadPoolExecutor
    followers: ThreadPoolExecutor
    starting: set[Future[None]] = field(default_factory=set)
    adopted: dict[UUID, Future[None]] = field(default_factory=dict)
    polled_at: float = float("-inf")
    # There was no unfinished job at the last poll.
    is_quiet: bool = False
    pruned_at: float = float("-inf")
    prewarm_pool: PrewarmPool = field(default_factory=PrewarmPool)


def work(jobs_at_once: int) -> None:
    """Serve this data folder until ``stopping`` is set. Runners outlive the worker.

    Raises DataFolderFailure if the data folder is gone or replaced.
    """
    change = ""
    with (
        serving(jobs_at_once),
        closing(changes_of_data(prewarm.folder())) as changes,
        ThreadPoolExecutor(jobs_at_once) as starters,
        ThreadPoolExecutor(MAX_ADOPTED) as followers,
    ):
        state = WorkerState(jobs_at_once, starters, followers)
        is_changed = True
        while not stopping.is_set():
            if change := what_changed():
                # Followers stop as well, and leave their runners running.
                stopping.set()
                break
            poll(state, is_changed=is_changed)
            # Handles several writes in a row at once.
            stopping.wait(POLL_SECONDS if is_changed else 0)
            is_changed = changes.wait(IDLE_SECONDS)
        end_all(state.prewarm_pool)
    if change:
        raise DataFolderFailure(change)


def poll(state: WorkerState, *, is_changed: bool) -> None:
    """Do what is due. Logs errors and pauses after them: the next poll tries again."""
    try:
        maintain(state.prewarm_pool)
        if is_changed or is_poll_due(state):
            adopt_orphans(state)
            start_ready(state)
    except Exception:
        # Such as a database that is locked for a long time.
        if not what_changed():
            logger.exception("polling for jobs")
        close_old_connections()
        stopping.wait(FAILED_SECONDS)


def is_poll_due(state: WorkerState) -> bool:
    """Whether to poll without a write to the database: start times come, and processes exit."""
    return time.monotonic() - state.polled_at >= (QUIET_ADOPT_SECONDS if state.is_quiet else ADOPT_SECONDS)


def start_ready(state: WorkerState) -> None:
    """Run the next job of the queue if there is one, a slot is free, and the disk has space."""
    state.starting = {one for one in state.starting if not one.done()}
    if len(state.starting) < state.jobs_at_once and has_room() and job_queue().waiting():
        state.starting.add(
            state.starters.submit(in_thread, "taking a job from the queue", job_queue().run_next)
        )


def in_thread(what: str, function: Callable[..., object], *arguments: object) -> None:
    """Call a function in a thread. Log its error, and close the thread's connection at the end."""
    try:
        function(*arguments)
    except Exception:
        logger.exception(what)
    finally:
        connection.close()


def adopt_orphans(state: WorkerState) -> None:
    """Follow orphaned jobs, put missing jobs into the queue, and clean up, every ``ADOPT_SECONDS``."""
    if time.monotonic() - state.polled_at < ADOPT_SECONDS:
        return
    state.polled_at = time.monotonic()
    state.adopted = {pk: one for pk, one in state.adopted.items() if not one.done()}
    for job in orphaned_jobs():
        if job.pk not in state.adopted:
            what = f"following {job.pk}"
            state.adopted[job.pk] = state.followers.submit(in_thread, what, ensure_finished, job)
    requeue_missing()
    state.is_quiet = not (state.adopted or Job.objects.unfinished().exists())
    clear_if_pending()
    if time.monotonic() - state.pruned_at > PRUNE_SECONDS:
        state.pruned_at = time.monotonic()
        delete_old_entries()
        delete_drafts()
        # Removing may take long.
        state.followers.submit(in_thread, "removing old data", remove_once_a_day, stopping.is_set)
        for project in Project.objects.all():
            redact_jobs_again(project)

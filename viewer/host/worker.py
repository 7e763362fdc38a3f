"""The worker: runs queued jobs, and follows running jobs whose follower has exited."""

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from threading import Lock
from uuid import UUID

from django.conf import settings
from django.db import close_old_connections, connection

from viewer.data_folder.changes import changes_of_data
from viewer.data_folder.database_file import clear_if_pending
from viewer.data_folder.failures import DataFolderFailure, folder_fault
from viewer.data_folder.locks import serving
from viewer.data_folder.permissions import what_changed
from viewer.host.jobs import prewarm
from viewer.host.jobs.following import (
    clean_up_ended,
    end_orphan_processes,
    ensure_finished,
    orphaned_jobs,
    stopping,
)
from viewer.host.jobs.pools import poll_pools
from viewer.host.jobs.prewarm import PrewarmPool, end_all, maintain
from viewer.host.jobs.retention import delete_drafts, remove_once_a_day
from viewer.host.project_secrets import redact_all_jobs_again
from viewer.models import Job
from viewer.records.hosts import next_job

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.05
# How often the worker searches for orphaned jobs, and for queued jobs whose start time has come.
ADOPT_SECONDS = 2.0
# The same without unfinished jobs. A new job is a write to the database, which wakes the worker.
QUIET_ADOPT_SECONDS = 10.0
# The longest delay before the worker stops or prewarms a process.
IDLE_SECONDS = 0.5
PRUNE_SECONDS = 3600
# The pause after a failure, such as a full disk.
FAILED_SECONDS = 1.0
# How often the locations of pools are recognised. A host counts as away after 30 seconds.
POOL_SECONDS = 5.0
# Following is cheap, and the run already costs money, so it does not occupy a slot.
MAX_ADOPTED = 64


@dataclass
class WorkerState:
    """The threads of this worker and what they do. Times are on the monotonic clock."""

    jobs_at_once: int
    starters: ThreadPoolExecutor
    followers: ThreadPoolExecutor
    # The slots in use, and when a job was last taken for one.
    busy: set[Future[None]] = field(default_factory=set)
    taken_at: dict[UUID, float] = field(default_factory=dict)
    taking: Lock = field(default_factory=Lock)
    adopted: dict[UUID, Future[None]] = field(default_factory=dict)
    polled_at: float = float("-inf")
    # There was no unfinished job at the last poll.
    is_quiet: bool = False
    pruned_at: float = float("-inf")
    # Recognising the locations of pools, which may wait for disks.
    pools: Future[None] | None = None
    pools_at: float = float("-inf")
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
        if is_changed or is_poll_due(state) or any(slot.done() for slot in state.busy):
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
    """Start the jobs that are ready in the free slots."""
    state.busy = {slot for slot in state.busy if not slot.done()}
    while len(state.busy) < state.jobs_at_once and (job := take(state)):
        what = f"running {job.pk}"
        # Connecting to a server takes longer than claiming a job.
        keeps = settings.IS_DATABASE_SHARED
        slot = state.starters.submit(in_thread, what, run_in_slot, state, job, keeps_connection=keeps)
        state.busy.add(slot)


def take(state: WorkerState) -> Job | None:
    """Return the next job for a slot; None if none is ready, or if the data folder is full or read-only.

    A job that did not start is taken again after ``ADOPT_SECONDS``, so that others have their turn.
    """
    with state.taking:
        now = time.monotonic()
        state.taken_at = {pk: at for pk, at in state.taken_at.items() if now - at < ADOPT_SECONDS}
        may_start = folder_fault() is None and not stopping.is_set()
        job = next_job(state.taken_at) if may_start else None
        if job is not None:
            state.taken_at[job.pk] = now
        return job


def run_in_slot(state: WorkerState, job: Job) -> None:
    """Run the job to its end, unless another process does, and then others until none is ready."""
    following: Job | None = job
    while following is not None:
        ensure_finished(following)
        following = take(state)


def in_thread(
    what: str, function: Callable[..., object], *arguments: object, keeps_connection: bool = False
) -> None:
    """Call a function in a thread, and log its error.

    At the end, closes the thread's connection, unless it ``keeps_connection`` and the connection works.
    """
    try:
        close_old_connections()
        function(*arguments)
    except Exception:
        logger.exception(what)
    finally:
        if keeps_connection:
            close_old_connections()
        else:
            connection.close()


def adopt_orphans(state: WorkerState) -> None:
    """Follow orphaned jobs, mark due ones, and clean up, every ``ADOPT_SECONDS``."""
    if time.monotonic() - state.polled_at < ADOPT_SECONDS:
        return
    state.polled_at = time.monotonic()
    state.adopted = {pk: one for pk, one in state.adopted.items() if not one.done()}
    for job in orphaned_jobs():
        if job.pk not in state.adopted:
            what = f"following {job.pk}"
            state.adopted[job.pk] = state.followers.submit(in_thread, what, ensure_finished, job)
    Job.objects.here().mark_due()
    state.is_quiet = not (state.adopted or Job.objects.unfinished().here().exists())
    clear_if_pending()
    is_idle = state.pools is None or state.pools.done()
    if settings.IS_DATABASE_SHARED and is_idle and time.monotonic() - state.pools_at >= POOL_SECONDS:
        state.pools_at = time.monotonic()
        state.pools = state.followers.submit(in_thread, "recognising locations of pools", poll_pools)
    if time.monotonic() - state.pruned_at > PRUNE_SECONDS:
        state.pruned_at = time.monotonic()
        # Removing may take long.
        state.followers.submit(remove_unneeded)


def remove_unneeded() -> None:
    """Remove what is no longer needed, and redact jobs again. What fails stops nothing else."""
    in_thread("deleting drafts", delete_drafts)
    in_thread("removing old data", remove_once_a_day, stopping.is_set)
    if settings.IS_DATABASE_SHARED:
        # Only PostgreSQL has this queue.
        from viewer.host.remote import forget_given_up

        in_thread("deleting requests", forget_given_up)
    # Those of jobs that a person ended while this machine was away.
    in_thread("ending processes", end_orphan_processes)
    in_thread("cleaning up ended jobs", clean_up_ended)
    in_thread("redacting jobs again", redact_all_jobs_again)

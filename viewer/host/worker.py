"""The worker: registers this machine as a host, writes its heartbeats, and runs and follows its jobs."""

import logging
import os
import platform
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.db import DatabaseError, close_old_connections, connection
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _

from viewer.data_folder.changes import changes_of_data
from viewer.data_folder.database_file import clear_if_pending
from viewer.data_folder.failures import DataFolderFailure, folder_fault, log_failure
from viewer.data_folder.locks import serving
from viewer.data_folder.permissions import what_changed
from viewer.engines import all_engines
from viewer.host.jobs import prewarm
from viewer.host.jobs.following import clean_up_ended, ensure_finished, orphaned_jobs, stopping
from viewer.host.jobs.pools import poll_pools
from viewer.host.jobs.prewarm import PrewarmPool, end_all, maintain
from viewer.host.jobs.processes import end_orphan_processes
from viewer.host.jobs.retention import delete_drafts, remove_once_a_day
from viewer.host.jobs.sandbox import launchers
from viewer.host.project_secrets import redact_all_jobs_again
from viewer.host.projects import engine_version
from viewer.messages.message import UserFacingError, plain_text
from viewer.models import Host, Job, Pool, Project
from viewer.models.hosts import DEFAULT_NAME, HOST_ID_FILE, MAX_MISSED, heartbeat_seconds, instance_here
from viewer.records.hosts import next_job

logger = logging.getLogger(__name__)

# Registers this machine as a host.


class HostNameTaken(UserFacingError):
    """Another machine has this name. The message says which, and what to do."""

    def __init__(self, host: Host) -> None:
        text = _(
            "The name %(name)s belongs to another machine, %(address)s, whose worker is running. Choose"
            " another name with --host, or stop that worker."
        )
        super().__init__(plain_text(text % {"name": host.name, "address": host.address}))


def register(name: str | None, slots: int, pools: Sequence[str] = ()) -> Host:
    """Return the host of this machine, which is up from now on, and only in these pools.

    Without a name it keeps the one it has.

    A machine that has replaced another one, whose worker is not running, continues under its name. Raises
    HostNameTaken.
    """
    _create_host_id()
    host = _row_to_register(name)
    may_have = Host.objects.filter(pk=host.pk)
    if settings.IS_DATABASE_SHARED:
        age = timedelta(seconds=heartbeat_seconds() * MAX_MISSED)
        is_free = Q(instance__in=("", instance_here())) | Q(is_up=False) | Q(seen_at__lt=Now() - age)
        may_have = may_have.filter(is_free)
    # Is seen from now on, so that another machine that registers at the same time is refused.
    if not may_have.update(instance=instance_here(), is_up=True, seen_at=Now(), **_facts(slots)):
        if name and host.name != name:
            # Another machine has just registered in the row that none had.
            return register(name, slots, pools)
        raise HostNameTaken(host)
    # A data folder has one name.
    Host.objects.filter(instance=instance_here()).exclude(pk=host.pk).update(instance="")
    if name and name != host.name:
        Host.objects.filter(pk=host.pk).update(name=name)
    host.refresh_from_db()
    host.pools.set([Pool.objects.get_or_create(name=one)[0] for one in pools])
    beat(host)
    return host


def claim_unregistered() -> bool:
    """Make this machine the host that no machine has been yet. Return False if there is none."""
    _create_host_id()
    if not Host.objects.exists():
        Host.objects.get_or_create(name=DEFAULT_NAME)
    free = Host.objects.filter(instance="", seen_at=None).order_by("pk").first()
    return free is not None and bool(
        Host.objects.filter(pk=free.pk, instance="").update(instance=instance_here())
    )


def _create_host_id() -> None:
    """Create the file that distinguishes this data folder from those of other machines."""
    path = Path(settings.DATA_DIR) / HOST_ID_FILE
    if path.exists():
        return
    # Linked once it is whole: another worker may read it.
    with NamedTemporaryFile("w", dir=settings.DATA_DIR) as file, suppress(FileExistsError):
        file.write(uuid4().hex)
        file.flush()
        path.hardlink_to(file.name)


def _row_to_register(name: str | None) -> Host:
    """Return the row with this name, else this machine's, else one that no machine has, else a new one."""
    if name and (named := Host.objects.filter(name=name).first()):
        return named
    free = Host.objects.filter(instance="", seen_at=None).order_by("pk")
    if found := Host.own() or free.first():
        return found
    return Host.objects.get_or_create(name=name or DEFAULT_NAME)[0]


def _facts(slots: int) -> dict[str, Any]:
    """Return what a page shows of this machine."""
    interpreters = {project.interpreter for project in Project.objects.here()}
    found = {
        engine.name: sorted({engine_version(Path(path), engine.name) for path in interpreters} - {""})
        for engine in all_engines()
    }
    return {
        "address": socket.gethostname(),
        "version": settings.VERSION,
        "python_version": platform.python_version(),
        "engines": {name: versions for name, versions in found.items() if versions},
        "folders": [str(root) for root in settings.CHECKPOINT_ROOTS],
        "slots": slots,
        "launchers": launchers(),
    }


# Its heartbeats while the worker runs.


def beat(host: Host) -> bool:
    """Write a heartbeat. Return False if another machine has taken the name."""
    before = timezone.now()
    database_now = Host.objects.filter(pk=host.pk).values_list(Now(), flat=True).first() or before
    now = before + (timezone.now() - before) / 2
    mine = Host.objects.filter(pk=host.pk, instance=instance_here())
    written = mine.update(
        seen_at=Now(),
        is_up=True,
        fault=folder_fault(),
        load=os.getloadavg()[0] / (os.cpu_count() or 1),
        clock_difference=(now - database_now).total_seconds(),
    )
    return bool(written)


@contextmanager
def heartbeats(host: Host, stop: Callable[[], None]) -> Iterator[None]:
    """Write heartbeats in a thread within the block.

    Calls ``stop`` if another machine has taken the name, which raises HostNameTaken at the end of the block.
    """
    ended, is_taken = threading.Event(), threading.Event()

    def write() -> None:
        while not ended.wait(heartbeat_seconds()):
            try:
                if not beat(host):
                    is_taken.set()
                    stop()
                    break
            except Exception as error:
                # The next one may succeed.
                log_failure(logger, "the heartbeat", error)
                connection.close()
        connection.close()

    thread = threading.Thread(target=write, name="heartbeats", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        _leave(host)
    if is_taken.is_set():
        raise HostNameTaken(Host.objects.get(pk=host.pk))


def _leave(host: Host) -> None:
    """Record that this machine's worker has ended."""
    try:
        Host.objects.filter(pk=host.pk, instance=instance_here()).update(is_up=False)
    except (DatabaseError, OSError) as error:
        # Its data folder or its database may be gone. Its missing heartbeats say the same.
        logger.warning("leaving failed: %s", error)


# Runs queued jobs, and follows running jobs whose follower has exited.

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
    taking: threading.Lock = field(default_factory=threading.Lock)
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

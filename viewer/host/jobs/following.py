"""Follows a job to its end: stores spool events as rows and imports checkpoints as they are written."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from django.conf import settings
from django.db import DatabaseError, IntegrityError
from django.db.models import Max

from viewer.data_folder.failures import folder_fault, is_full_disk
from viewer.host.jobs import followed_job, processes
from viewer.host.jobs.ending import finish, import_and_log
from viewer.host.jobs.events import Redactor, batches, clean_up, redactor_of, rows_of
from viewer.host.jobs.files import JobStorage, storage_of
from viewer.host.jobs.followed_job import POLL_SECONDS, FollowedJob, followed_rows, pace
from viewer.host.jobs.kept_keys import restart_proxy
from viewer.host.jobs.processes import Cancellation, LostRunner, RunnerProcess
from viewer.host.jobs.questions import deliver_missing, ingest
from viewer.host.jobs.redact_again import redact_jobs_again
from viewer.host.jobs.spool import SpoolEvent
from viewer.host.jobs.starting import launch
from viewer.host_requests import JobRefused
from viewer.models import Job, JobEvent, Project

# The job's row, and runners of other processes, are polled less often.
ROW_POLL_SECONDS = 0.2

# Between two attempts to store what a full disk did not.
FULL_DISK_SECONDS = 1.0

logger = logging.getLogger(__name__)

# Set when this process is about to exit: following stops, and another process adopts the jobs.
stopping = threading.Event()


def never() -> bool:
    """Return False: follow to the end."""
    return False


def ensure_finished(job: Job, leaves: Callable[[], bool] = never) -> None:
    """Run a queued job or follow a running one until it has ended, or asks a question and ``leaves`` is true.

    Returns immediately if another process or host runs or follows it, if it has ended, or if it has to wait
    for its start time, for a limit, or for space on the disk. Never starts a job twice.
    """
    storage = storage_of(job)
    storage.create()
    with storage.following() as is_ours:
        if not is_ours:
            return
        job.refresh_from_db()
        is_queued = job.status == Job.Status.QUEUED
        may_start = is_queued and folder_fault() is None
        runner = launch(job) if may_start else None
        is_under_way = job.status in (Job.Status.STARTING, Job.Status.RUNNING)
        # Another host of its pool may have claimed it meanwhile. Its runner has no lock here.
        if is_under_way and Job.objects.here().filter(pk=job.pk).exists():
            follow(job, runner, leaves)


def follow(job: Job, runner: RunnerProcess | None = None, leaves: Callable[[], bool] = never) -> None:
    """Follow until the job has ended, or until this process is about to exit.

    ``runner`` is None if another process started it; only that process can read its exit status. Also returns
    if a question waits and ``leaves`` is true. The runner waits on, and another process follows it.
    """
    storage = storage_of(job)
    redact = redactor_of_run(job, storage)
    known_seq = JobEvent.objects.filter(job=job).aggregate(Max("seq"))["seq__max"] or 0
    importing = ThreadPoolExecutor(1, thread_name_prefix="import")
    with followed_rows.following(job.pk), importing as importer:
        state = FollowedJob(
            job,
            storage,
            runner,
            redact,
            importer,
            known_seq,
            followed_job.LimitEnforcer(job, job_limits=dict(job.limits)),
        )
        while not stopping.is_set():
            try:
                if follow_once(state, leaves):
                    return
            except (DatabaseError, OSError) as error:
                if not is_full_disk(error):
                    raise
                # The run goes on until it needs space itself, and its end is stored once there is some.
                state.disk_was_full = True
                logger.exception("following job %s", job.pk)
                stopping.wait(FULL_DISK_SECONDS)


def redactor_of_run(job: Job, storage: JobStorage) -> Redactor:
    """Return the redactor of a job that this machine has started.

    It knows the secrets with which the run started, also if their file is no longer in the allowed folders.
    """
    try:
        if job.project is not None:
            redact_jobs_again(job.project)
        return redactor_of(job.project)
    except JobRefused as refused:
        path = storage.read_request().get("environment_file")
        if not isinstance(path, str):
            raise
        logger.warning("job %s is followed with the secrets of its start: %s", job.pk, refused)
        return redactor_of(Project(environment_file=path), started_with=path)


def follow_once(state: FollowedJob, leaves: Callable[[], bool]) -> bool:
    """Store what is new, then wait a moment. Returns whether there is nothing more to follow."""
    # Poll before reading, so that everything a runner wrote before it exited is read.
    poll(state)
    is_read = not store_new_events(state)
    if state.is_deleted:
        # The cost of this run can no longer be counted.
        processes.end_all(state.storage, patience=settings.CANCEL_GRACE_SECONDS)
        clean_up(state.job, state.redact)
        return True
    if is_read and state.is_gone:
        finish(state)
        return True
    if state.cancellation:
        state.cancellation.advance()
    if state.open_questions and leaves() and state.job.questions.waiting().exists():
        return True
    stopping.wait(POLL_SECONDS if is_read else pace.pause_after_events(state.job.pk))
    return False


def store_new_events(state: FollowedJob) -> bool:
    """Store what the runner has written since the last call. Return whether there was anything."""
    events, offset = state.storage.read_events(state.offset)
    if offset == state.offset:
        return False
    new = [event for event in events if event["seq"] > state.known_seq]
    try:
        # Store questions before their events, so that the question exists when its event is seen.
        ingest(state.job, events, state.redact, state.open_questions)
        if new:
            batches.store(rows_of(state.job, new, state.redact))
    except IntegrityError:
        state.is_deleted = not Job.objects.filter(pk=state.job.pk).exists()
        if not state.is_deleted:
            raise
        return False
    state.offset = offset
    for event in events:
        state.known_seq = max(state.known_seq, event["seq"])
        handle_event(state, event)
    followed_job.store_usage(state.enforcer)
    return True


def handle_event(state: FollowedJob, event: SpoolEvent) -> None:
    """Update the job for one event."""
    state.has_events = True
    if followed_job.count_event(state.enforcer, event):
        state.cancel()
    elif state.enforcer.runner_stops and state.cancellation is None:
        # The runner has already interrupted itself, the first step of a cancellation.
        state.cancellation = Cancellation(state.job, step=1)
    if event["kind"] == "started":
        state.job.mark_running()
        if state.job.process_id is None and isinstance(event["data"].get("pid"), int):
            # The worker that started it was killed before it could store this.
            state.job.record_process(processes.leader_of(event["data"]["pid"], state.storage))
    elif event["kind"] == "checkpoint":
        # Another thread imports it, so that events never wait for an import.
        state.importer.submit(import_and_log, state.job, str(event["data"].get("path") or ""))
    elif event["kind"] == "ended":
        state.last_event, state.last_event_at = event, time.monotonic()


def poll(state: FollowedJob) -> None:
    """Check whether the runner has exited, whether a person has cancelled the job, and its limits."""
    if state.runner is not None:
        try:
            state.is_gone = state.runner.poll() is not None
        except LostRunner:
            # Poll it from now on like a runner of another process.
            state.runner = None
    now = time.monotonic()
    if now - state.polled_at < ROW_POLL_SECONDS:
        return
    state.polled_at = now
    if state.runner is None:
        state.is_gone = processes.is_gone(state.job.process_id, state.storage)
    rows = followed_rows.cancellations_of(state.job.pk)
    state.is_deleted = not rows
    state.storage.shorten_log()
    if state.job.kept_keys:
        restart_proxy(state.storage.name)
    if state.open_questions:
        deliver_missing(state.job, state.open_questions)
    is_running = not (state.is_deleted or state.is_gone or state.last_event)
    if any(rows) or (is_running and followed_job.check_shared(state.enforcer)):
        state.cancel()
    if state.last_event and now - state.last_event_at > settings.CANCEL_GRACE_SECONDS and not state.is_gone:
        # The runner has reported its end but does not exit.
        processes.end_all(state.storage, patience=1)

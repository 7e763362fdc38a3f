"""Follows a job's spool to its end: lines become rows, and checkpoints are imported as they are written."""

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from django.conf import settings
from django.db import IntegrityError, connection
from django.db.models import Max

from viewer.importing import import_location, import_one
from viewer.jobs import locks
from viewer.jobs.execution import processes
from viewer.jobs.execution.cancel import Cancellation
from viewer.jobs.execution.clean_up import clean_up
from viewer.jobs.execution.completion import mark_complete
from viewer.jobs.execution.event_rows import Redactor, log_tail, redacted_message, redactor_for, rows_of
from viewer.jobs.execution.log import shorten_log
from viewer.jobs.execution.outcome import outcome, with_failed_writes
from viewer.jobs.execution.redact_again import redact_jobs_again
from viewer.jobs.execution.run_link import link_run
from viewer.jobs.execution.runner_process import LostRunner, RunnerProcess
from viewer.jobs.execution.start import launch, make_folder
from viewer.jobs.human_input.questions import deliver_missing, ingest, redact_answers
from viewer.jobs.limits import enforcement
from viewer.jobs.limits.usage import reached_shared_limit
from viewer.jobs.spool import LOCK, SpoolEvent, read_events
from viewer.models import Job, JobEvent

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.02
# The row (was a cancel asked for?) and, where we are not the parent, the child are looked at less often.
ROW_POLL_SECONDS = 0.2

# Set where this process is to end: its follows return, and leave their jobs to be adopted.
stopping = threading.Event()


def ensure_finished(job: Job) -> None:
    """Bring a job to its end from wherever it stands: a queued one is launched, one under way followed.

    Returns at once where another process does so, where it has ended, or where it has to wait: for its time,
    or for room under a limit. Nothing is started twice.
    """
    make_folder(job)
    with locks.held(job.folder / locks.FOLLOWER) as ours:
        if not ours:
            return
        job.refresh_from_db()
        queued = job.status == Job.Status.QUEUED
        child = launch(job) if queued and reached_shared_limit(job) is None else None
        if job.status in (Job.Status.STARTING, Job.Status.RUNNING):
            follow(job, child)


@dataclass
class FollowedJob:
    """How far one job has been followed. Times are on the monotonic clock."""

    job: Job
    child: RunnerProcess | None
    hide: Redactor
    importer: ThreadPoolExecutor
    known_seq: int
    kept: enforcement.LimitEnforcer
    offset: int = 0
    spoke: bool = False
    gone: bool = False
    deleted: bool = False
    looked: float = 0.0
    last: SpoolEvent | None = None
    last_at: float = 0.0
    cancelling: Cancellation | None = None
    # The numbers of the questions that the child waits with.
    asking: set[int] = field(default_factory=set)


def follow(job: Job, child: RunnerProcess | None = None) -> None:
    """Follow until the job has ended. Returns early, leaving it under way, where this process is to stop.

    ``child`` is given by its parent, who alone learns its exit status.
    """
    if job.project is not None:
        redact_jobs_again(job.project)
    known = JobEvent.objects.filter(job=job).aggregate(Max("seq"))["seq__max"] or 0
    with ThreadPoolExecutor(1, thread_name_prefix="import") as importer:
        state = FollowedJob(
            job, child, redactor_for(job), importer, known, enforcement.limit_enforcer_for(job)
        )
        while not stopping.is_set():
            # Looked at before reading: what it wrote until then is read.
            poll(state)
            is_read = not store_new_events(state)
            if state.deleted:
                # Nobody would see any more what it costs.
                processes.end_all(job.folder, patience=settings.CANCEL_GRACE_SECONDS)
                clean_up(job, state.hide)
                return
            if is_read and state.gone:
                finish(state)
                return
            if state.cancelling:
                state.cancelling.advance()
            stopping.wait(POLL_SECONDS)


def store_new_events(state: FollowedJob) -> bool:
    """Store what the child wrote since; False where that is nothing."""
    lines, offset = read_events(state.job.folder, state.offset)
    if offset == state.offset:
        return False
    new = [line for line in lines if line["seq"] > state.known_seq]
    try:
        # Before their events: who is told of an event finds its question.
        ingest(state.job, lines, state.hide, state.asking)
        JobEvent.objects.bulk_create(rows_of(state.job, new, state.hide), ignore_conflicts=True)
    except IntegrityError:
        state.deleted = not Job.objects.filter(pk=state.job.pk).exists()
        if not state.deleted:
            raise
        return False
    state.offset = offset
    for line in lines:
        state.known_seq = max(state.known_seq, line["seq"])
        handle_event(state, line)
    enforcement.store_usage(state.kept)
    return True


def handle_event(state: FollowedJob, line: SpoolEvent) -> None:
    """What a line means for the job itself."""
    state.spoke = True
    if enforcement.count_event(state.kept, line):
        cancel(state)
    elif state.kept.stops_itself and state.cancelling is None:
        # It has got the first signal from itself.
        state.cancelling = Cancellation(state.job, step=1)
    if line["kind"] == "started":
        state.job.mark_running()
        if state.job.process_id is None and isinstance(line["data"].get("pid"), int):
            state.job.note_process(line["data"]["pid"])
    elif line["kind"] == "checkpoint":
        # Beside the following, so that lines never wait for it.
        state.importer.submit(import_quietly, state.job, str(line["data"].get("path") or ""))
    elif line["kind"] == "ended":
        state.last, state.last_at = line, time.monotonic()


def poll(state: FollowedJob) -> None:
    """Whether the child is gone, and what a person has asked since."""
    if state.child is not None:
        try:
            state.gone = state.child.poll() is not None
        except LostRunner:
            # Followed from here as one that another process has started.
            state.child = None
    now = time.monotonic()
    if now - state.looked < ROW_POLL_SECONDS:
        return
    state.looked = now
    if state.child is None:
        state.gone = is_gone(state.job)
    rows = Job.objects.filter(pk=state.job.pk).values_list("cancel_requested_at", flat=True)
    asked = list(rows)
    state.deleted = not asked
    shorten_log(state.job)
    if state.asking:
        deliver_missing(state.job, state.asking)
    is_at_work = not (state.deleted or state.gone or state.last)
    if any(asked) or (is_at_work and enforcement.check_shared(state.kept)):
        cancel(state)
    if state.last and now - state.last_at > settings.CANCEL_GRACE_SECONDS and not state.gone:
        # It has said its last word, and hangs in its own ending.
        processes.end_all(state.job.folder, patience=1)


def cancel(state: FollowedJob) -> None:
    """Begin to end it, if nobody has."""
    if state.cancelling is None:
        state.cancelling = Cancellation(state.job)


def is_gone(job: Job) -> bool:
    """For who is not its parent: nobody holds its lock, or only others than the child itself do."""
    if not job.folder.exists():
        # Somebody took the folder away, which says nothing of the child.
        return job.process_id is None or not processes.is_alive(job.process_id, job.folder)
    if not locks.is_held(job.folder / LOCK):
        return True
    return job.process_id is not None and not processes.is_alive(job.process_id, job.folder)


def import_quietly(job: Job, source: str = "") -> None:
    """Import one checkpoint, or all that is new. A fault does not end the following: later looks go on."""
    try:
        if source:
            import_one(job.location, source)
        else:
            import_location(job.location)
        link_run(job)
    except Exception:
        logger.exception("importing %s while a job writes there", job.location)
    finally:
        connection.close()


def finish(state: FollowedJob) -> None:
    """End the job: nothing of it runs any more, and all that it wrote has been imported."""
    if state.cancelling:
        state.cancelling.finish()
    else:
        processes.end_all(state.job.folder, patience=1)
    state.importer.submit(import_quietly, state.job).result()
    state.job.refresh_from_db()
    came_to = outcome(
        state.last["data"] if state.last else None,
        state.child.returncode if state.child else None,
        spoke=state.spoke,
        cancelled=state.job.cancel_requested_at is not None or bool(state.job.limit_hit),
    )
    lines = state.job.events.order_by("seq")
    failures = list(lines.filter(kind="checkpoint_failed").values_list("data", flat=True))
    came_to = with_failed_writes(came_to, lines.filter(kind="checkpoint").count(), failures)
    if came_to.status == Job.Status.SUCCEEDED:
        # Before its end, at which open pages look again.
        mark_complete(state.job)
    state.job.end(
        came_to.status,
        result=state.hide(came_to.result),
        why=came_to.error and redacted_message(came_to.error, state.hide),
        traceback=state.hide(came_to.traceback),
        log_end=log_tail(state.job, state.hide),
    )
    redact_answers(state.job, state.hide)
    clean_up(state.job, state.hide)

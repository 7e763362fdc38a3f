"""Follows a job to its end: stores events, imports checkpoints, and then ends it with its score and row."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from django.conf import settings
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.db.models import F, Max, QuerySet

from viewer.data_folder.failures import folder_fault, is_full_disk
from viewer.data_folder.locks import worker_is_up
from viewer.engines import engine_of
from viewer.engines.protocol import kind_of
from viewer.host.jobs import processes
from viewer.host.jobs.events import (
    POLL_SECONDS,
    Redactor,
    StreamedTexts,
    batches,
    clean_up,
    deliver_missing,
    ingest,
    log_tail,
    pace,
    redact_answers,
    redactor_of,
    rows_of,
    storable,
)
from viewer.host.jobs.files import JobStorage, storage_of, storages
from viewer.host.jobs.kept_keys import restart_proxy
from viewer.host.jobs.processes import (
    Cancellation,
    LimitEnforcer,
    LostRunner,
    Outcome,
    RunnerProcess,
    followed_rows,
    outcome_of,
    with_failed_writes,
)
from viewer.host.jobs.spool import SpoolEvent
from viewer.host.jobs.starting import launch
from viewer.host.locations.importing import import_location, import_one
from viewer.host.locations.indexing import import_run, import_scratch
from viewer.host.project_secrets import redact_job_again, redact_jobs_again
from viewer.host_requests import JobRefused
from viewer.messages.message import UserMessage, redacted_message
from viewer.models import Checkpoint, Job, JobEvent, Project, Run
from viewer.models.runs import scratch_store_of
from viewer.records.collections import SCORE_SECONDS, expected_answer, score_key, whole_answer
from viewer.records.hosts import claimants
from viewer.records.locations import is_indexed
from viewer.records.prices import price_job
from viewer.records.run_rows import update_statuses
from viewer.records.runner_requests import request_for_score
from viewer.stores.protocol import count_of

# The job's row, and runners of other processes, are polled less often.
ROW_POLL_SECONDS = 0.2

# Between two attempts to store what a full disk did not.
FULL_DISK_SECONDS = 1.0

# What every kernel uses at most.
MAX_PROCESS_ID = 2**22

logger = logging.getLogger(__name__)

# Set when this process is about to exit: following stops, and another process adopts the jobs.
stopping = threading.Event()


@dataclass
class FollowedJob:
    """How far a job has been followed. Times are on the monotonic clock."""

    job: Job
    storage: JobStorage
    # None if another process started the runner.
    runner: RunnerProcess | None
    redact: Redactor
    importer: ThreadPoolExecutor
    known_seq: int
    enforcer: LimitEnforcer
    offset: int = 0
    # How many events after the offset were handled, before a full disk stopped the others.
    handled: int = 0
    has_events: bool = False
    is_gone: bool = False
    is_deleted: bool = False
    # Whether something could not be stored because the disk was full.
    disk_was_full: bool = False
    # Whether the run has replaced or closed its own folder.
    has_changed_folder: bool = False
    polled_at: float = 0.0
    # The "ended" event.
    last_event: SpoolEvent | None = None
    last_event_at: float = 0.0
    cancellation: Cancellation | None = None
    # The numbers of the questions that the runner waits for.
    open_questions: set[int] = field(default_factory=set)
    texts: StreamedTexts = field(default_factory=StreamedTexts)
    # The mark of the secrets that ``redact`` knows.
    secrets_mark: str = ""

    def cancel(self) -> None:
        """Start cancelling the job, unless it is already being cancelled."""
        if self.cancellation is None:
            self.cancellation = Cancellation(self.job)


def never() -> bool:
    """Return False: follow to the end."""
    return False


def ensure_finished(job: Job, leaves: Callable[[], bool] = never) -> None:
    """Run a queued job or follow a running one until it has ended, or asks a question and ``leaves`` is true.

    Returns immediately if another process or host runs or follows it, if it has ended, or if it has to wait
    for its start time, for a limit, or for space on the disk. Never starts a job twice. Ends a job whose run
    has made its own folder unusable.
    """
    storage = storage_of(job)
    try:
        start_or_follow(job, storage, leaves)
    except OSError as error:
        if not storage.was_changed(error):
            raise
        end_unusable(job, storage, error)


def start_or_follow(job: Job, storage: JobStorage, leaves: Callable[[], bool]) -> None:
    """Do what ``ensure_finished`` says. Raises OSError."""
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


def end_unusable(job: Job, storage: JobStorage, error: OSError) -> None:
    """End a job whose run has replaced or closed its folder, with all its processes. It is not started.

    What the run uses can no longer be counted, and nobody could answer or stop it.
    """
    job.refresh_from_db()
    if job.status == Job.Status.QUEUED:
        # Its row may be older than its run.
        job.claim()
    is_under_way = job.status in (Job.Status.STARTING, Job.Status.RUNNING)
    if is_under_way and Job.objects.here().filter(pk=job.pk).exists():
        processes.end_all(storage, patience=settings.CANCEL_GRACE_SECONDS)
        with suppress(OSError):
            # Opens what was closed, so that a draft in it is not lost.
            storage.create()
        redact, enforcer = redactor_of_run(job, storage), LimitEnforcer(job)
        with ThreadPoolExecutor(1, thread_name_prefix="import") as importer:
            state = FollowedJob(job, storage, None, redact, importer, 0, enforcer, has_changed_folder=True)
            if store_end(state):
                # As a text: an error would be replaced by what a person can do about the data folder.
                text = "job %s was ended: its run has changed its own folder: %s"
                logger.warning(text, job.pk, str(error))
        with suppress(OSError):
            clean_up(job, redact)


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
            LimitEnforcer(job),
            secrets_mark=job.project.secrets_digest if job.project else "",
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
            # After an upgrade, the worker redacts all of them meanwhile. The run does not wait for that.
            redact_jobs_again(job.project, for_rules=False)
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
    # If the disk is full, the same events are read again, after the same texts.
    texts = state.texts.copy()
    for event in events[: len(events) - len(new)]:
        texts.add(event)
    try:
        # Store questions before their events, so that the question exists when its event is seen.
        ingest(state.job, events, state.redact, state.open_questions)
        if new:
            batches.store(rows_of(state.job, new, state.redact, texts))
    except IntegrityError:
        state.is_deleted = not Job.objects.filter(pk=state.job.pk).exists()
        if not state.is_deleted:
            raise
        return False
    for event in events[state.handled :]:
        handle_event(state, event)
        state.known_seq = max(state.known_seq, event["seq"])
        state.handled += 1
    processes.store_usage(state.enforcer)
    state.offset, state.handled, state.texts = offset, 0, texts
    return True


def handle_event(state: FollowedJob, event: SpoolEvent) -> None:
    """Update the job for one event."""
    state.has_events = True
    if processes.count_event(state.enforcer, event):
        state.cancel()
    elif state.enforcer.runner_stops and state.cancellation is None:
        # The runner has already interrupted itself, the first step of a cancellation.
        state.cancellation = Cancellation(state.job, step=1)
    if event["kind"] == "started":
        state.job.mark_running()
        process_id = count_of(event["data"].get("pid"))
        if state.job.process_id is None and 0 < process_id <= MAX_PROCESS_ID:
            # The worker that started it was killed before it could store this.
            state.job.record_process(processes.leader_of(process_id, state.storage))
    elif event["kind"] == "checkpoint":
        # Another thread imports it, so that events never wait for an import.
        path = event["data"].get("path")
        source = path if isinstance(path, str) and path == storable(path) else ""
        state.importer.submit(import_and_log, state.job, source)
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
    if any(rows) or (is_running and processes.check_shared(state.enforcer)):
        state.cancel()
    if state.last_event and now - state.last_event_at > settings.CANCEL_GRACE_SECONDS and not state.is_gone:
        # The runner has reported its end but does not exit.
        processes.end_all(state.storage, patience=1)


# Links the job of a new run to its imported run.


def link_run(job: Job) -> None:
    """Set the job's run once one of its checkpoints is imported. Idempotent.

    A fork or resume has its run from the start, except for a fork on another host.
    """
    if job.kind != Job.Kind.RUN and not job.is_on_other_host:
        return
    reported = job.events.filter(kind="checkpoint").order_by("seq").values_list("data__id", flat=True)
    rows = Checkpoint.objects.filter(
        location=job.location, checkpoint_id__in=[one for one in reported[:50] if one]
    )
    first = rows.order_by("row").values_list("run_id", flat=True).first()
    if first is None:
        # Flow states get other ids when they are published.
        published = job.events.filter(kind="published").values_list("data__thread", flat=True)
        threads = job.location.runs.filter(key=published.first() or "")
        first = threads.values_list("pk", flat=True).first()
    if first is not None:
        Job.objects.filter(pk=job.pk, run=None).update(run_id=first)


# Marks the last checkpoint of a job with how the job ended. The engine wrote it before the run ended.


def mark_end(job: Job, status: Job.Status, *, is_incomplete: bool) -> None:
    """Mark the last checkpoint that a job wrote, or from which it resumed, with the job's final status.

    ``is_incomplete`` means that the job could not write all of its checkpoints. Checkpoints of an indexed
    location record themselves how their run ended.
    """
    if is_indexed(job.location) or job.kind not in (Job.Kind.FORK, Job.Kind.RESUME, Job.Kind.RUN):
        return
    ids = job.events.filter(kind="checkpoint").order_by("-seq").values_list("data__id", flat=True)
    last_id = ids.first()
    last = Checkpoint.objects.filter(location=job.location, checkpoint_id=last_id or "")
    has_succeeded = status == Job.Status.SUCCEEDED
    if last_id is None and has_succeeded and job.kind == Job.Kind.RESUME and job.checkpoint_id:
        # Nothing was left to write.
        last = Checkpoint.objects.filter(pk=job.checkpoint_id)
    if has_succeeded and (is_incomplete or job.is_at_breakpoint):
        return
    with transaction.atomic():
        if has_succeeded:
            _complete_units(last)
        ended_as = Checkpoint.COMPLETED if has_succeeded else status.value
        last.update(ended_as=ended_as)
        update_statuses(set(last.values_list("run", flat=True)))


def _complete_units(last: QuerySet[Checkpoint]) -> None:
    """Mark checkpoints as complete that do not record how many units follow, or which were skipped."""
    for row in last.filter(units_done__gt=0).select_related("location"):
        kind = kind_of(engine_of(row.location), row.entity)
        # If another unit had run after this one, it would have written a later checkpoint.
        is_last = bool(kind.last_trigger) and row.trigger == kind.last_trigger and not row.units_total
        if is_last if kind.is_open_ended else row.units_done < row.units_total:
            Run.objects.filter(pk=row.run_id, units_known=row.units_done).update(all_units_known=True)
            last.filter(pk=row.pk).update(units_total=F("units_done"))


# Scores the end result of a sweep's branch, if a scoring function was named when the sweep was started.


def queue_score(job: Job) -> Job | None:
    """Store the job that scores the end result of a succeeded job; the worker starts it.

    Returns None if its sweep has no scoring function, or if the job stopped at a breakpoint, wrote no
    checkpoint, or replayed a call without getting a whole answer.
    """
    function = job.sweep.score if job.sweep else ""
    if not function or job.status != Job.Status.SUCCEEDED or job.is_at_breakpoint or job.run is None:
        return None
    call, end = job.replayed_call, job.checkpoint
    if not call:
        rows = job.run.checkpoints.filter(recorded_branch=job.branch).select_related("location", "run")
        end = rows.order_by("-row").first()
    if end is None or (call and whole_answer(job) is None):
        return None
    expected = expected_answer(job.sweep, job.checkpoint, call)
    request = request_for_score(end, function, expected, call, str(job.pk) if call else "")
    scoring, _is_new = Job.objects.get_or_create(
        idempotency_key=score_key(job),
        defaults={
            "kind": Job.Kind.SCORE,
            "location": end.location,
            "run": end.run,
            "checkpoint": end,
            "project": job.project,
            # It shares the limits of the sweep.
            "sweep": job.sweep,
            "requested_by": job.requested_by,
            "requester_key": job.requester_key,
            "continued_by": job.continued_by,
            "branch": job.branch,
            "request": dict(request),
            "limits": {"seconds": SCORE_SECONDS},
            **claimants(end.location, end),
        },
    )
    return scoring


def finish(state: FollowedJob) -> None:
    """End the job: end its remaining processes, import its last checkpoints, store its outcome, clean up."""
    if state.cancellation:
        state.cancellation.finish()
    else:
        processes.end_all(state.storage, patience=1)
    store_end(state)
    clean_up(state.job, redactor_at_end(state.job, state.redact, state.secrets_mark))


def redactor_at_end(job: Job, redact: Redactor, mark: str) -> Redactor:
    """Return a redactor that also knows the secrets that have become known since this one was made.

    Redacts what was stored of the job without them.
    """
    try:
        if not redact_job_again(job, mark):
            return redact
        now = redactor_of(job.project)
    except JobRefused as refused:
        logger.warning("job %s has ended with the secrets of its start: %s", job.pk, refused)
        return redact
    return lambda value: now(redact(value))


def store_end(state: FollowedJob) -> bool:
    """Import the last checkpoints, and store the outcome. Return False if the job had ended before."""
    state.importer.submit(import_and_log, state.job).result()
    state.job.refresh_from_db()
    outcome = _outcome(state)
    if outcome.status == Job.Status.SUCCEEDED:
        _record_breakpoint(state.job)
    # Before the job is marked as ended, because open pages then reload.
    mark_end(state.job, outcome.status, is_incomplete=outcome.error is not None)
    price_job(state.job)
    texts = {"traceback": state.redact(outcome.traceback), "log_end": log_tail(state.job, state.redact)}
    error = outcome.error and redacted_message(outcome.error, state.redact)
    # In one transaction, so that a job that ends twice is scored once.
    with transaction.atomic():
        has_ended = state.job.end(outcome.status, result=state.redact(outcome.result), error=error, **texts)
        if has_ended:
            queue_score(state.job)
    redact_answers(state.job, state.redact)
    return has_ended


def _outcome(state: FollowedJob) -> Outcome:
    is_cancelled = state.job.cancel_requested_at is not None or bool(state.job.limit_hit)
    if state.has_changed_folder:
        changed = UserMessage("job.folder_changed", {"path": str(state.storage.path)})
        return Outcome(Job.Status.CANCELLED if is_cancelled else Job.Status.FAILED, error=changed)
    last = state.last_event or state.storage.reserved_event()
    outcome = outcome_of(
        last["data"] if last else None,
        state.runner.returncode if state.runner else None,
        has_events=state.has_events,
        is_cancelled=is_cancelled,
    )
    if last is None and state.disk_was_full and outcome.status != Job.Status.CANCELLED:
        reason = UserMessage("job.disk_full", {"path": str(settings.DATA_DIR)})
        outcome = Outcome(Job.Status.INTERRUPTED, error=reason)
    events = state.job.events.order_by("seq")
    failures = list(events.filter(kind="checkpoint_failed").values_list("data", flat=True))
    return with_failed_writes(outcome, events.filter(kind="checkpoint").count(), failures)


def _record_breakpoint(job: Job) -> None:
    """Record the breakpoint at which the run stopped, if it did."""
    event = job.events.filter(kind="breakpoint").order_by("-seq").first()
    units = event.data.get("nodes") if event else None
    if isinstance(units, list) and units:
        job.record_breakpoint([str(unit) for unit in units])


def import_and_log(job: Job, source: str = "") -> None:
    """Import one checkpoint, or all new ones if no source is given.

    Errors are logged, and following continues: a later import tries again.
    """
    try:
        if is_indexed(job.location) or scratch_store_of(job.pk).exists():
            _import_run(job)
        elif source:
            import_one(job.location, source)
        else:
            import_location(job.location)
        link_run(job)
    except Exception:
        logger.exception("importing %s while a job writes there", job.location)
    finally:
        connection.close()


def _import_published(job: Job) -> None:
    """Import the run to which the job published a fork, if any."""
    for event in job.events.filter(kind="published"):
        # Another process may have described it before the event was stored.
        job.location.runs.filter(key=str(event.data.get("thread"))).update(is_described=False)
        import_location(job.location)
        for run in job.location.runs.filter(key=str(event.data.get("thread"))).select_related("location"):
            import_run(run)


def _import_run(job: Job) -> None:
    """Import the checkpoints that the job wrote to its scratch store or to its location."""
    store = scratch_store_of(job.pk)
    if job.kind == Job.Kind.FORK or store.exists():
        if job.run and store.exists():
            forked = job.checkpoint.checkpoint_id if job.checkpoint else ""
            import_scratch(job.run, store, str(job.pk), job.branch, forked)
        _import_published(job)
        return
    import_location(job.location)
    if job.kind == Job.Kind.PUBLISH:
        _import_published(job)
        return
    threads = job.events.filter(kind="checkpoint").values_list("data__thread", flat=True)
    run = job.run or job.location.runs.filter(key=threads.first() or "").first()
    if run is not None:
        import_run(run)


# Jobs and processes whose follower was killed.


def orphaned_jobs() -> list[Job]:
    """Running jobs of this machine that no process follows. They are followed again, never started again."""
    return [job for job in Job.objects.under_way().here() if not storage_of(job).is_followed()]


def finish_orphans() -> list[Job]:
    """Finish the orphaned jobs whose runner has exited, unless a worker is up. Returns these jobs.

    Starts no job. Jobs whose runner still runs are left unchanged.
    """
    if worker_is_up():
        return []
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


def clean_up_ended() -> None:
    """Clean up after jobs whose follower was killed after it had stored their end."""
    left = {storage.name: storage for storage in storages("jobs") if storage.has_leftovers()}
    for job in Job.objects.ended().here().filter(pk__in=left):
        storage = left[str(job.pk)]
        try:
            with storage.following() as is_ours:
                if is_ours and not storage.has_runner():
                    redact = redactor_of_run(job, storage)
                    redact_answers(job, redact)
                    clean_up(job, redactor_at_end(job, redact, ""))
        except Exception:
            # The others are cleaned up.
            logger.exception("cleaning up job %s", job.pk)

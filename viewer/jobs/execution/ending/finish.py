"""Ends a job whose runner has exited."""

import logging

from django.conf import settings
from django.db import connection, transaction

from viewer.importing import import_location, import_one, import_run, import_scratch, is_indexed
from viewer.jobs.execution import processes
from viewer.jobs.execution.ending.clean_up import clean_up
from viewer.jobs.execution.ending.completion import mark_end
from viewer.jobs.execution.ending.sweep_score import queue_score
from viewer.jobs.execution.following.event_rows import log_tail
from viewer.jobs.execution.following.followed_job import FollowedJob
from viewer.jobs.execution.following.outcome import Outcome, outcome_of, with_failed_writes
from viewer.jobs.execution.following.run_link import link_run
from viewer.jobs.human_input.questions import redact_answers
from viewer.messages.message import UserMessage, redacted_message
from viewer.models import Job
from viewer.models.runs import scratch_store_of
from viewer.prices import price_job

logger = logging.getLogger(__name__)


def finish(state: FollowedJob) -> None:
    """End the job: end its remaining processes, import its last checkpoints, store its outcome, clean up."""
    if state.cancellation:
        state.cancellation.finish()
    else:
        processes.end_all(state.storage, patience=1)
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
        if state.job.end(outcome.status, result=state.redact(outcome.result), error=error, **texts):
            queue_score(state.job)
    redact_answers(state.job, state.redact)
    clean_up(state.job, state.redact)


def _outcome(state: FollowedJob) -> Outcome:
    last = state.last_event or state.storage.reserved_event()
    outcome = outcome_of(
        last["data"] if last else None,
        state.runner.returncode if state.runner else None,
        has_events=state.has_events,
        is_cancelled=state.job.cancel_requested_at is not None or bool(state.job.limit_hit),
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
        if is_indexed(job.location):
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
        import_location(job.location)
        for run in job.location.runs.filter(key=str(event.data.get("thread"))).select_related("location"):
            import_run(run)


def _import_run(job: Job) -> None:
    """Import the checkpoints that the job wrote to its scratch store or to its location."""
    store = scratch_store_of(job.pk)
    if job.kind == Job.Kind.FORK or store.exists():
        if job.run and store.exists():
            import_scratch(job.run, store, str(job.pk), job.branch)
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

"""Ends a job whose runner has exited: its last checkpoint, its score and its row."""

import logging

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, QuerySet

from viewer.engines import engine_of
from viewer.engines.protocol import kind_of
from viewer.host.jobs import processes
from viewer.host.jobs.events import clean_up, log_tail
from viewer.host.jobs.followed_job import FollowedJob
from viewer.host.jobs.processes import Outcome, outcome_of, with_failed_writes
from viewer.host.jobs.questions import redact_answers
from viewer.host.locations.importing import import_location, import_one
from viewer.host.locations.indexing import import_run, import_scratch
from viewer.messages.message import UserMessage, redacted_message
from viewer.models import Checkpoint, Job, Run
from viewer.models.runs import scratch_store_of
from viewer.records.collections import SCORE_SECONDS, expected_answer, score_key, whole_answer
from viewer.records.locations import is_indexed
from viewer.records.prices import price_job
from viewer.records.queue import claimants
from viewer.records.run_rows import update_statuses
from viewer.records.runner_requests import request_for_score

logger = logging.getLogger(__name__)

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

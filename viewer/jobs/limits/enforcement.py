"""Enforces the limits of a followed job: counts its events, and stops it as a cancellation does."""

from dataclasses import asdict, dataclass, field

from viewer.engines import unit_events
from viewer.jobs.event_values import positive_integer
from viewer.jobs.limits.usage import (
    TOKEN_EVENTS,
    Limit,
    limit_in,
    limits_in,
    reached_shared_limit,
    seconds_of,
)
from viewer.jobs.spool import SpoolEvent
from viewer.jobs.storage import storage_of
from viewer.models import Job

# Besides the start of a unit, these events show that a run will use more. Other runs may just end.
WORK_STARTED = ("model_started", "model_completed")


@dataclass
class LimitEnforcer:
    """The usage of a job, counted from the beginning of its spool, and the limit that it has reached."""

    job: Job
    tokens: int = 0
    steps: int = 0
    job_limits: dict[str, float] = field(default_factory=dict)
    reached: Limit | None = None
    # The runner has reported that it stops at a limit.
    runner_stops: bool = False


def count_event(enforcer: LimitEnforcer, event: SpoolEvent) -> bool:
    """Count an event. Return True if the run must be stopped now: it has reached a limit and continues."""
    kind, data = event["kind"], event["data"]
    if kind == "limit":
        enforcer.runner_stops = True
        _stop(enforcer.job, limit_in(data))
        return False
    if enforcer.reached and kind in (*WORK_STARTED, *unit_events("started")):
        return _stop(enforcer.job, enforcer.reached)
    if kind in TOKEN_EVENTS:
        enforcer.tokens = max(
            enforcer.tokens + positive_integer(data.get("tokens")), positive_integer(data.get("total_tokens"))
        )
    elif kind in unit_events("completed"):
        enforcer.steps += 1
    enforcer.reached = enforcer.reached or _job_limit_reached(enforcer)
    return False


def store_usage(enforcer: LimitEnforcer) -> None:
    """Store the usage in the job's row, where jobs with the same shared limit read it. Never decreases."""
    job = enforcer.job
    tokens, steps = max(job.tokens, enforcer.tokens), max(job.steps_used, enforcer.steps)
    if (tokens, steps) != (job.tokens, job.steps_used):
        job.record_usage(tokens=tokens, steps=steps)


def check_shared(enforcer: LimitEnforcer) -> bool:
    """Check the time limit and the limits shared with other jobs. True if the run has to be stopped now."""
    job = enforcer.job
    if job.limit_hit:
        return not enforcer.runner_stops
    if "seconds" in enforcer.job_limits and _seconds_run(job) >= enforcer.job_limits["seconds"]:
        return _stop(job, Limit("job", "seconds", enforcer.job_limits["seconds"]))
    shared = reached_shared_limit(job)
    if shared is None:
        # The usage of other jobs may have left the period of the limit.
        storage_of(job).delete_stop()
    else:
        storage_of(job).write_stop(asdict(shared))
    enforcer.reached = _job_limit_reached(enforcer) or shared
    # A waiting run uses time, but no tokens or steps.
    if shared and shared.measure == "seconds":
        return _stop(job, shared)
    return False


def _seconds_run(job: Job) -> float:
    """The seconds that the job has run, without its waits for a person."""
    waits = job.questions.order_by("asked_at").values_list("asked_at", "answered_at", "withdrawn_at")
    return seconds_of(job, [(asked, answered or withdrawn) for asked, answered, withdrawn in waits])


def _job_limit_reached(enforcer: LimitEnforcer) -> Limit | None:
    used = {"tokens": enforcer.tokens, "steps": enforcer.steps}
    limits = limits_in("job", enforcer.job_limits)
    return next((one for one in limits if one.measure in used and used[one.measure] >= one.max_amount), None)


def _stop(job: Job, limit: Limit | None) -> bool:
    return job.stop(asdict(limit) if limit else {"whose": "unknown"})

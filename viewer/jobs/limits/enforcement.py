"""Keeps a job to its limits while it is followed: counts its lines, and stops it as a cancel would."""

import json
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
from viewer.jobs.spool import STOP, SpoolEvent
from viewer.models import Job

# Lines of a run that goes on to use more. One that only has to end after its last answer is let end.
WORK_STARTED = ("model_started", "model_completed")


@dataclass
class LimitEnforcer:
    """What the lines of one job say that it has used, and the limit that is reached."""

    job: Job
    tokens: int = 0
    steps: int = 0
    own: dict[str, float] = field(default_factory=dict)
    reached: Limit | None = None
    # Its child has said that it stops by itself.
    stops_itself: bool = False


def limit_enforcer_for(job: Job) -> LimitEnforcer:
    """Counts from the beginning of the spool, whoever has read it before."""
    return LimitEnforcer(job, own=dict(job.limits))


def count_event(enforcer: LimitEnforcer, line: SpoolEvent) -> bool:
    """Count a line. True where the run has to be stopped now: a limit is reached, and it goes on."""
    kind, data = line["kind"], line["data"]
    if kind == "limit":
        enforcer.stops_itself = True
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
    enforcer.reached = enforcer.reached or _own_reached(enforcer)
    return False


def store_usage(enforcer: LimitEnforcer) -> None:
    """Keep in the row what was counted, for whoever shares a limit. It never becomes less."""
    job = enforcer.job
    tokens, steps = max(job.tokens, enforcer.tokens), max(job.steps_used, enforcer.steps)
    if (tokens, steps) != (job.tokens, job.steps_used):
        job.record_usage(tokens=tokens, steps=steps)


def check_shared(enforcer: LimitEnforcer) -> bool:
    """Look at the time and at what others have used. True where the run has to be stopped now."""
    job = enforcer.job
    if job.limit_hit:
        return not enforcer.stops_itself
    waits = list(job.questions.order_by("asked_at").values_list("asked_at", "answered_at", "withdrawn_at"))
    seconds = seconds_of(job, [(asked, answered or withdrawn) for asked, answered, withdrawn in waits])
    if "seconds" in enforcer.own and seconds >= enforcer.own["seconds"]:
        return _stop(job, Limit("job", "seconds", enforcer.own["seconds"]))
    shared = reached_shared_limit(job)
    _tell_child(job, shared)
    enforcer.reached = _own_reached(enforcer) or shared
    # Time goes on by itself; of anything else, nothing is used until the run goes on.
    if shared and shared.measure == "seconds":
        return _stop(job, shared)
    return False


def _own_reached(enforcer: LimitEnforcer) -> Limit | None:
    used = {"tokens": enforcer.tokens, "steps": enforcer.steps}
    own = limits_in("job", enforcer.own)
    return next((one for one in own if one.measure in used and used[one.measure] >= one.most), None)


def _tell_child(job: Job, shared: Limit | None) -> None:
    """Have the child begin nothing more, or go on where there is room again."""
    stop = job.folder / STOP
    if shared is None:
        stop.unlink(missing_ok=True)
    elif not stop.exists():
        whole = stop.with_suffix(".new")
        whole.write_text(json.dumps(asdict(shared)), encoding="utf-8")
        whole.replace(stop)


def _stop(job: Job, limit: Limit | None) -> bool:
    return job.stop(asdict(limit) if limit else {"whose": "unknown"})

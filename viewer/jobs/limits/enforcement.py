"""Keeps a job to its limits while it is followed: counts its lines, and stops it as a cancel would."""

import json
from dataclasses import asdict, dataclass, field

from viewer.jobs.limits.usage import STEPS, TOKENS, Limit, limit_in, limits_in, reached_shared, seconds_of
from viewer.jobs.spool import STOP, SpoolEvent
from viewer.models import Job
from viewer.presentation.jobs.progress import as_number

# Lines of a run that goes on to use more. One that only has to end after its last answer is let end.
GOES_ON = frozenset({"model_started", "model_completed", "task_started", "method_started"})


@dataclass
class Keeping:
    """What the lines of one job say that it has used, and the limit that is reached."""

    job: Job
    tokens: int = 0
    steps: int = 0
    own: dict[str, float] = field(default_factory=dict)
    reached: Limit | None = None
    # Its child has said that it stops by itself.
    stops_itself: bool = False


def keeping_of(job: Job) -> Keeping:
    """Counts from the beginning of the spool, whoever has read it before."""
    return Keeping(job, own=dict(job.limits))


def take(keeping: Keeping, line: SpoolEvent) -> bool:
    """Count a line. True where the run has to be stopped now: a limit is reached, and it goes on."""
    kind, data = line["kind"], line["data"]
    if kind == "limit":
        keeping.stops_itself = True
        _stop(keeping.job, limit_in(data))
        return False
    if keeping.reached and kind in GOES_ON:
        return _stop(keeping.job, keeping.reached)
    if kind in TOKENS:
        keeping.tokens = max(
            keeping.tokens + as_number(data.get("tokens")), as_number(data.get("total_tokens"))
        )
    elif kind in STEPS:
        keeping.steps += 1
    keeping.reached = keeping.reached or _own_reached(keeping)
    return False


def note(keeping: Keeping) -> None:
    """Keep in the row what was counted, for whoever shares a limit. It never becomes less."""
    job = keeping.job
    tokens, steps = max(job.tokens, keeping.tokens), max(job.steps_used, keeping.steps)
    if (tokens, steps) != (job.tokens, job.steps_used):
        job.record_usage(tokens=tokens, steps=steps)


def look(keeping: Keeping) -> bool:
    """Look at the time and at what others have used. True where the run has to be stopped now."""
    job = keeping.job
    if job.limit_hit:
        return not keeping.stops_itself
    waits = list(job.questions.order_by("asked_at").values_list("asked_at", "answered_at", "withdrawn_at"))
    seconds = seconds_of(job, [(asked, answered or withdrawn) for asked, answered, withdrawn in waits])
    if "seconds" in keeping.own and seconds >= keeping.own["seconds"]:
        return _stop(job, Limit("job", "seconds", keeping.own["seconds"]))
    shared = reached_shared(job)
    _tell_child(job, shared)
    keeping.reached = _own_reached(keeping) or shared
    # Time goes on by itself; of anything else, nothing is used until the run goes on.
    if shared and shared.measure == "seconds":
        return _stop(job, shared)
    return False


def _own_reached(keeping: Keeping) -> Limit | None:
    used = {"tokens": keeping.tokens, "steps": keeping.steps}
    own = limits_in("job", keeping.own)
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

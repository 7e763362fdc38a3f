"""The branches of a sweep side by side: their progress and how their results differ."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from viewer.comparison.diff.words import Piece, difference
from viewer.models import Job, Sweep
from viewer.presentation.jobs.progress import Progress, advance, halt, progress_of


@dataclass(slots=True)
class Compared:
    """One branch. ``pieces`` are its result, with differences from the baseline marked."""

    job: Job
    progress: Progress
    is_base: bool = False
    pieces: list[Piece] = field(default_factory=list)


def compared(group: Sweep, against: str = "") -> list[Compared]:
    """Return the sweep's branches in order, compared with the job ``against`` or the first result."""
    jobs = list(group.jobs.select_related("run", "location", "checkpoint__run").order_by("created_at"))
    found = [Compared(job, _progress(job)) for job in jobs]
    base = next((one for one in found if str(one.job.pk) == against), None) or _first_with_result(found)
    for one in found:
        one.is_base = one is base
        is_other = base is not None and one is not base
        text = one.job.result
        one.pieces = difference(base.job.result, text)[1] if base and is_other else [Piece(text, False)]
    return found


def _first_with_result(found: Sequence[Compared]) -> Compared | None:
    return next((one for one in found if one.job.result), None)


def _progress(job: Job) -> Progress:
    progress = progress_of(job.plan)
    # Most events are streamed text, which is not shown here.
    for event in job.events.exclude(kind="text").iterator(chunk_size=1000):
        advance(progress, event.seq, event.kind, event.data)
    if job.has_ended:
        halt(progress, job.status == Job.Status.FAILED)
    return progress

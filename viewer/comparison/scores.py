"""The scores of checkpoints, by the function that gave them."""

import json
from collections.abc import Sequence

from django.utils.translation import gettext as _

from viewer.models import Checkpoint, Job


def scores_of(checkpoints: Sequence[Checkpoint]) -> dict[str, list[str]]:
    """For each function, the newest score of each checkpoint; empty where it was not called."""
    keys = [checkpoint.pk for checkpoint in checkpoints]
    jobs = Job.objects.filter(kind=Job.Kind.SCORE, checkpoint__in=keys).order_by("created_at")
    found: dict[str, list[str]] = {}
    for job in jobs.only("checkpoint_id", "request", "result", "status"):
        row = found.setdefault(str(job.request.get("function") or ""), [""] * len(keys))
        for at, key in enumerate(keys):
            if key == job.checkpoint_id:
                row[at] = score_text(job)
    return found


def score_text(job: Job) -> str:
    """The score, or the status of a job that has none."""
    if job.status != Job.Status.SUCCEEDED:
        return str(job.get_status_display())
    score = score_in(job)
    if isinstance(score, bool):
        return _("yes") if score else _("no")
    return str(score)


def score_in(job: Job) -> float | bool | str:
    """The score of a succeeded job."""
    try:
        score: float | bool | str = json.loads(job.result)
    except ValueError:
        return job.result
    return score


def best_of(texts: Sequence[str]) -> int | None:
    """The position of the highest number; None if they are not all numbers, or if several are the highest."""
    try:
        numbers = [float(text) for text in texts]
    except ValueError:
        return None
    best = max(numbers)
    return numbers.index(best) if numbers.count(best) == 1 and len(numbers) > 1 else None

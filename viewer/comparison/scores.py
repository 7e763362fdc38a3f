"""The scores of checkpoints, by the function that gave them."""

import json
from collections.abc import Sequence

from django.utils.translation import gettext as _

from viewer.comparison.sides import Side
from viewer.models import Checkpoint, Job

Score = float | bool | str


def scores_of(checkpoints: Sequence[Checkpoint]) -> dict[str, list[Job | None]]:
    """For each function, the newest job that scored each checkpoint; None where it was not called."""
    keys = [checkpoint.pk for checkpoint in checkpoints]
    jobs = Job.objects.filter(kind=Job.Kind.SCORE, checkpoint__in=keys).order_by("created_at")
    found: dict[str, list[Job | None]] = {}
    for job in jobs.only("checkpoint_id", "request", "result", "status"):
        row = found.setdefault(str(job.request.get("function") or ""), [None] * len(keys))
        for at, key in enumerate(keys):
            if key == job.checkpoint_id:
                row[at] = job
    return found


def score_text(job: Job | None) -> str:
    """The score, or the status of a job that has none; empty without a job."""
    if job is None:
        return ""
    score = score_of(job)
    if score is None:
        return str(job.get_status_display())
    if isinstance(score, bool):
        return _("yes") if score else _("no")
    return str(score)


def score_of(job: Job | None) -> Score | None:
    """The score that a succeeded job gave; None of any other."""
    return score_in(job) if job is not None and job.status == Job.Status.SUCCEEDED else None


def score_in(job: Job) -> Score:
    """The score of a succeeded job."""
    try:
        score: Score = json.loads(job.result)
    except ValueError:
        return job.result
    return score


def sides_by_score(sides: Sequence[Side], sort: str) -> list[Side]:
    """The baseline, then the other sides by the scores of the function ``sort``; ``-``: highest first.

    As they are if no function of this name scored one of them.
    """
    jobs = scores_of([side.checkpoint for side in sides]).get(sort.removeprefix("-"))
    if jobs is None:
        return list(sides)
    order = by_score([score_of(job) for job in jobs[1:]], highest_first=sort.startswith("-"))
    return [sides[0], *(sides[at + 1] for at in order)]


def best_of(scores: Sequence[Score | None]) -> list[int]:
    """The positions of the highest number, or of true.

    Empty if a score is a text, if fewer than two are known, or if all are equal.
    """
    known = [score for score in scores if score is not None]
    if len(set(known)) < 2 or any(isinstance(score, str) for score in known):
        return []
    best = max(float(score) for score in known)
    return [at for at, score in enumerate(scores) if score is not None and float(score) == best]


def by_score(scores: Sequence[Score | None], *, highest_first: bool) -> list[int]:
    """The positions in the order of their scores: numbers, then texts, then those without a score."""
    numbers = [at for at, score in enumerate(scores) if isinstance(score, float | int)]
    texts = [at for at, score in enumerate(scores) if isinstance(score, str)]
    numbers.sort(key=lambda at: float(scores[at] or 0), reverse=highest_first)
    texts.sort(key=lambda at: str(scores[at]).casefold(), reverse=highest_first)
    return [*numbers, *texts, *(at for at, score in enumerate(scores) if score is None)]

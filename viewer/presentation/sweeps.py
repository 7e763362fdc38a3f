"""The branches of a sweep side by side: their progress, how their results differ, and their scores."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import isfinite, sqrt
from statistics import StatisticsError, fmean, stdev
from typing import Any

from django.utils.translation import gettext, gettext_lazy

from viewer.models import Checkpoint, Job, Sweep
from viewer.presentation.comparison_sides import (
    Reference,
    Score,
    best_of,
    by_score,
    reference_to,
    score_of,
    score_text,
)
from viewer.presentation.diff import Piece, difference
from viewer.presentation.jobs.events import Progress, advance, halt, progress_of
from viewer.presentation.jobs.status import SharedReasons, Wait, wait_of
from viewer.presentation.listing import Column
from viewer.records.collections import recorded_scoring_of, scoring_of

# The members of a sweep, as sides of a comparison.


def members_of(sweep: Sweep) -> dict[str, str]:
    """The label of each side by its reference, the baseline first.

    The baseline is the branch that the sweep forked. Members without a checkpoint are left out.
    """
    origin = sweep.checkpoint
    members = {str(_newest_of(origin)): ""} if origin else {}
    jobs = sweep.branches.select_related("run").exclude(run=None)
    for job in jobs:
        if job.run and job.run.checkpoints.filter(branch=job.branch).exists():
            members[str(Reference(job.run.uid, branch=job.branch))] = job.variation
    return members


def _newest_of(origin: Checkpoint) -> Reference:
    """The newest checkpoint of the forked branch, or the forked one if no branch names it."""
    return Reference(origin.run.uid, branch=origin.branch) if origin.branch else reference_to(origin)


# The branches of a sweep side by side: their progress, how their results differ, and their scores.


# The columns of the table of scores, whose rows ``in_order`` sorts.
COLUMNS = (
    Column("branch", gettext_lazy("Branch"), "", starts_high=False, is_number=False),
    Column("variation", gettext_lazy("Variation"), "", starts_high=False, is_number=False),
    Column("status", gettext_lazy("Status"), "", starts_high=False, is_number=False),
    Column("tokens", gettext_lazy("Tokens"), ""),
    Column("score", gettext_lazy("Score"), ""),
)
# The kinds of waits that do not end soon.
_LONG_WAITS = frozenset({"limit", "time", "person", "admin"})


@dataclass(slots=True)
class ComparedBranch:
    """One branch. ``pieces`` are the parts of its result, with differences from the baseline marked.

    ``scoring`` is the job that scores its end result, if any.
    """

    job: Job
    progress: Progress
    scoring: Job | None = None
    # The job that scores the recorded result of the run that was forked.
    recorded: Job | None = None
    is_base: bool = False
    is_best: bool = False
    pieces: list[Piece] = field(default_factory=list)

    @property
    def score(self) -> Score | None:
        return score_of(self.scoring)

    @property
    def score_text(self) -> str:
        return score_text(self.scoring)

    @property
    def has_ended(self) -> bool:
        """Whether the branch and its scores have ended."""
        return all(job is None or job.has_ended for job in (self.job, self.scoring, self.recorded))

    @property
    def recorded_text(self) -> str:
        """The score of the recorded result."""
        return score_text(self.recorded)

    @property
    def pair_text(self) -> str:
        """Both scores."""
        values = {"score": self.score_text, "recorded": self.recorded_text}
        return gettext("Score %(score)s, as recorded %(recorded)s") % values

    @property
    def difference(self) -> float | None:
        """The score minus that of the recorded result; None unless both are numbers, true or false."""
        before, after = score_of(self.recorded), self.score
        if not (isinstance(before, float | int) and isinstance(after, float | int)):
            return None
        found = float(after) - float(before)
        return found if isfinite(found) else None


def compared(group: Sweep, against: str = "") -> list[ComparedBranch]:
    """Return the sweep's branches in order, compared with the job ``against``, else the first result."""
    jobs = list(group.branches.select_related("run", "location", "checkpoint__run"))
    scoring = scoring_of(jobs) if group.score else {}
    found = [ComparedBranch(job, _progress(job), scoring.get(job.pk)) for job in jobs]
    with_result = next((one for one in found if one.job.result), None)
    base = next((one for one in found if str(one.job.pk) == against), with_result)
    for one in found:
        one.is_base = one is base
        is_other = base is not None and one is not base
        text = one.job.result
        one.pieces = difference(base.job.result, text)[1] if base and is_other else [Piece(text, False)]
    for at in best_of([one.score for one in found]):
        found[at].is_best = True
    return found


def runs_of(group: Sweep) -> list[ComparedBranch]:
    """Return the forks and resumes of several runs, from the rows of their jobs alone."""
    related = ("run", "location", "project", "checkpoint__location", "checkpoint__run", "host")
    jobs = list(group.branches.select_related(*related))
    scoring, recorded = (scoring_of(jobs), recorded_scoring_of(jobs)) if group.score else ({}, {})
    return [
        ComparedBranch(job, progress_of(job.plan), scoring.get(job.pk), recorded.get(job.pk)) for job in jobs
    ]


# The scores of several runs, each next to that of its recorded result.


PAIR_COLUMNS = (
    Column("run", gettext_lazy("Run"), "", starts_high=False, is_number=False),
    Column("status", gettext_lazy("Status"), "", starts_high=False, is_number=False),
    Column("recorded", gettext_lazy("As recorded"), ""),
    Column("score", gettext_lazy("Score"), ""),
    Column("difference", gettext_lazy("Difference"), "", starts_high=False),
)


@dataclass(frozen=True, slots=True)
class MeanDifference:
    """The mean of the differences of ``count`` pairs, and its 95 % confidence interval; None for none."""

    count: int
    mean: float
    low: float | None = None
    high: float | None = None


def mean_difference(differences: Sequence[float]) -> MeanDifference | None:
    """The mean with the interval of Student's t; None without differences, or if they are too large.

    There is no interval of fewer than two differences, or of equal ones.
    """
    try:
        count, mean = len(differences), fmean(differences)
        spread = stdev(differences) / sqrt(count) if len(set(differences)) > 1 else 0.0
    except (StatisticsError, OverflowError):
        return None
    if not spread:
        return MeanDifference(count, mean)
    # It takes a second to import.
    from scipy.special import stdtrit

    margin = float(stdtrit(count - 1, 0.975)) * spread
    return MeanDifference(count, mean, mean - margin, mean + margin)


def mean_difference_of(branches: Sequence[ComparedBranch]) -> MeanDifference | None:
    """The mean difference of the branches with two scores that are numbers."""
    return mean_difference([one.difference for one in branches if one.difference is not None])


def in_order(branches: Sequence[ComparedBranch], sort: str) -> list[ComparedBranch]:
    """The branches in the order of a sorted column, ``-`` for the highest first; unknown values last."""
    column, is_high = sort.removeprefix("-"), sort.startswith("-")
    if column == "score":
        order = by_score([one.score for one in branches], highest_first=is_high)
        return [branches[at] for at in order]
    if column in ("recorded", "difference"):
        values = [score_of(one.recorded) if column == "recorded" else one.difference for one in branches]
        return [branches[at] for at in by_score(values, highest_first=is_high)]
    keys: dict[str, Callable[[ComparedBranch], Any]] = {
        "branch": lambda one: one.job.branch.casefold(),
        "run": lambda one: str(one.job.run).casefold(),
        "variation": lambda one: one.job.variation.casefold(),
        "status": lambda one: one.job.status,
        "tokens": lambda one: one.progress.tokens,
    }
    return sorted(branches, key=keys[column], reverse=is_high) if column in keys else list(branches)


def winners(branches: Sequence[ComparedBranch]) -> list[ComparedBranch]:
    """The branches with the best score; empty until all have ended, or if all scores are equal."""
    return [one for one in branches if one.is_best] if all(one.has_ended for one in branches) else []


def held_back(branches: Sequence[ComparedBranch]) -> Wait | None:
    """Why no branch goes on, if all that have not ended wait for a limit, a time or a person; else None."""
    found, known = None, SharedReasons()
    jobs = [job for one in branches for job in (one.job, one.scoring, one.recorded) if job]
    for job in (job for job in jobs if not job.has_ended):
        found = wait_of(job, known)
        if found is None or found.kind not in _LONG_WAITS:
            return None
    return found


def _progress(job: Job) -> Progress:
    progress = progress_of(job.plan)
    # Most events are streamed text, which is not shown here.
    for event in job.events.exclude(kind="text").iterator(chunk_size=1000):
        advance(progress, event.seq, event.kind, event.data)
    if job.has_ended:
        halt(progress, job.status)
    return progress

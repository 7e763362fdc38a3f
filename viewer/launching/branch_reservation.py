"""Reserves a branch for a job. Called in the transaction that stores the job's row."""

from viewer.jobs.execution.starting.start import JobRefused
from viewer.models import Job, Location, Run


class BranchTaken(JobRefused):
    """Another job or checkpoint has the branch. Nothing was started."""


def refuse_taken(kind: str, location: Location, run: Run | None, branch: str) -> None:
    """Check that no other unfinished job writes to this branch, and that a fork's branch is new.

    Transactions begin with a write lock, so no other process can write between this check and the insert of
    the row. Raises BranchTaken.
    """
    if kind == Job.Kind.FORK and branch in location.taken_branches:
        raise BranchTaken("branch.exists", name=branch)
    if kind == Job.Kind.RESUME and Job.objects.unfinished().filter(run=run, branch=branch).exists():
        raise BranchTaken(
            "branch.in_use",
            name=branch,
        )

"""The members of a sweep, as sides of a comparison."""

from viewer.comparison.references import Reference, reference_to
from viewer.models import Checkpoint, Job, Sweep


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


def unfinished_members(sweep: Sweep) -> int:
    """How many members have not ended."""
    return sweep.branches.exclude(status__in=Job.ENDED).count()


def _newest_of(origin: Checkpoint) -> Reference:
    """The newest checkpoint of the forked branch, or the forked one if no branch names it."""
    return Reference(origin.run.uid, branch=origin.branch) if origin.branch else reference_to(origin)

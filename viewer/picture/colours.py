"""Which of the eight lane colours a branch has. It keeps it for as long as the run is known."""

from django.db.models import Min

from viewer.models import Job, Run

COLOURS = 8


def branch_colours(run: Run) -> dict[str, int]:
    """The colour of each branch of a run: by the order in which they began, so that none changes later."""
    branches = (
        run.checkpoints.order_by()
        .values_list("branch")
        .annotate(first=Min("row"))
        .order_by("first", "branch")
    )
    return {branch: place % COLOURS for place, (branch, _) in enumerate(branches)}


def job_colour(job: Job) -> int:
    """The colour of the branch that a job writes to: the next one where nothing stands on it yet."""
    if job.run is None:
        return 0
    colours = branch_colours(job.run)
    return colours.get(job.branch, len(colours) % COLOURS)

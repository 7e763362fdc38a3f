"""Which of the eight lane colours a branch has. It keeps it for as long as the run is known."""

from viewer.models import Job, Run

COLOURS = 8


def branch_colours(run: Run) -> dict[str, int]:
    """The colour of each branch of a run: by the order in which they began, so that none changes later."""
    return {branch: place % COLOURS for place, branch in enumerate(run.branch_names)}


def job_colour(job: Job) -> int:
    """The colour of the branch that a job writes to: the next one where nothing stands on it yet."""
    if job.run is None:
        return 0
    colours = branch_colours(job.run)
    return colours.get(job.branch, len(colours) % COLOURS)

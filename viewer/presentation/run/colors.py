"""The lane colours of branches, 0 to 7. A branch never changes its colour."""

from viewer.models import Job, Run

COLOURS = 8


def branch_colours(run: Run) -> dict[str, int]:
    """Return the colour of each branch of a run, in the order in which they started."""
    return {branch: number % COLOURS for number, branch in enumerate(run.branch_names)}


def job_colour(job: Job) -> int:
    """Return the colour of a job's branch: the next free one for a new branch."""
    if job.run is None:
        return 0
    colours = branch_colours(job.run)
    return colours.get(job.branch, len(colours) % COLOURS)

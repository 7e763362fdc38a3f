"""Why a timeline is empty."""

from collections.abc import Sequence

from django.utils.translation import gettext as _

from viewer.models import Checkpoint, Job, Run

# Kinds of jobs that run no unit of work.
WITHOUT_UNITS = (Job.Kind.PUBLISH, Job.Kind.SCORE)


def why_job_is_empty(job: Job) -> str:
    """Why a job has no spans."""
    if job.kind in WITHOUT_UNITS:
        return _("A job of this kind runs no unit of work, so it has no timeline.")
    if job.started_at is None and not job.has_ended:
        return _("The job has not started yet.")
    if not job.has_ended:
        return _("The job has started, but no unit of work has.")
    if not job.events.filter(kind="started").exists():
        return _("The job has no events: it ended before it ran, or old events were removed.")
    return _("The job ended before a unit of work started.")


def failed_job(run: Run, branch: str) -> Job | None:
    """The newest job of a branch, if it did not succeed."""
    jobs = run.jobs.filter(branch=branch).exclude(kind__in=WITHOUT_UNITS)
    newest = jobs.select_related("location").order_by("-created_at").first()
    return newest if newest and newest.has_ended and newest.status != Job.Status.SUCCEEDED else None


def why_branch_is_empty(checkpoints: Sequence[Checkpoint]) -> str:
    """Why a branch with these checkpoints has no spans."""
    if not checkpoints:
        return _("This run has no checkpoints.")
    if all(one.has_no_copy for one in checkpoints):
        return _("The copies of the checkpoints of this branch were deleted.")
    return _("The engine has recorded no times on this branch.")

"""A job as its page, its bar and its row show it, from its events."""

from dataclasses import dataclass

from viewer.jobs.progress import Progress, advance, progress_of
from viewer.jobs.timeline import Timeline, tell
from viewer.models import Job


@dataclass(frozen=True, slots=True)
class ShownJob:
    """``timeline`` holds all its rows."""

    job: Job
    progress: Progress
    timeline: Timeline


def shown_job(job: Job) -> ShownJob:
    """The job as it stands now."""
    progress, timeline = progress_of(job.plan), Timeline()
    for event in job.events.iterator(chunk_size=1000):
        advance(progress, event.seq, event.kind, event.data)
        tell(timeline, [event])
    return ShownJob(job, progress, timeline)


def branch_url(job: Job) -> str:
    """Where the job's branch is seen: at its newest checkpoint, else at its run; empty where that is gone."""
    if job.run is None:
        return ""
    newest = job.run.checkpoints.filter(branch=job.branch).select_related("run").order_by("-row").first()
    return newest.get_absolute_url() if newest else job.run.get_absolute_url()

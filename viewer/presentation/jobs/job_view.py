"""A job as its page, its bar and its row show it, from its events."""

from dataclasses import dataclass

from django.urls import reverse
from django.utils.translation import gettext as _

from viewer.jobs.limits.usage import limits_in, seconds_of, usage_label
from viewer.models import Checkpoint, Job
from viewer.presentation.jobs.progress import Progress, advance, halt, progress_of
from viewer.presentation.jobs.timeline import Timeline, tell


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
    if job.has_ended:
        halt(progress, job.status == Job.Status.FAILED)
    return ShownJob(job, progress, timeline)


@dataclass(frozen=True, slots=True)
class NextStep:
    """What a person can do about a job that has not succeeded."""

    url: str
    words: str


def next_step(job: Job) -> NextStep | None:
    """Where what it has not finished can be run: from its last checkpoint.

    None where it has succeeded, or has written no checkpoint.
    """
    if not job.has_ended or job.status == Job.Status.SUCCEEDED:
        return None
    written = job.events.filter(kind="checkpoint").order_by("-seq").values_list("data__id", flat=True)[:1]
    last = Checkpoint.objects.filter(location=job.location, checkpoint_id__in=list(written)).first()
    if last:
        return NextStep(reverse("resume", args=[last.pk]), _("Resume from its last checkpoint"))
    return None


def retry_url(job: Job) -> str:
    """The form that is filled in as the job's was; empty where it succeeded, or can start from nothing."""
    if not job.has_ended or job.status == Job.Status.SUCCEEDED:
        return ""
    if job.kind == Job.Kind.RUN:
        return f"{reverse('new-run', args=[job.location.uid])}?retry={job.pk}"
    return f"{reverse(job.kind, args=[job.checkpoint.pk])}?retry={job.pk}" if job.checkpoint else ""


def limits_shown(job: Job) -> list[str]:
    """The job's own limits, each behind what it has used of it."""
    waits = [
        (one.asked_at, one.answered_at or one.withdrawn_at) for one in job.questions.order_by("asked_at")
    ]
    used = {"tokens": job.tokens, "steps": job.steps_used, "seconds": seconds_of(job, waits)}
    return [usage_label(one, used[one.measure]) for one in limits_in("job", job.limits)]


def branch_url(job: Job) -> str:
    """Where the job's branch is seen: at its newest checkpoint. Empty where it has none."""
    if job.run is None:
        return ""
    newest = job.run.checkpoints.filter(branch=job.branch).select_related("run").order_by("-row").first()
    return newest.get_absolute_url() if newest else ""


def start_url(job: Job) -> str:
    """The checkpoint that the job started from, in its run's list. Empty where it is gone."""
    return job.checkpoint.get_absolute_url() if job.checkpoint else ""

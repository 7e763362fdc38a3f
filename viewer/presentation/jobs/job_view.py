"""The pages of a job: its progress, its events and its next steps."""

from dataclasses import dataclass

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from viewer.formats.amounts import count_text
from viewer.jobs.limits.usage import limits_in, seconds_of
from viewer.models import Checkpoint, Job
from viewer.presentation.jobs.event_list import EventList, add_events
from viewer.presentation.jobs.limit_labels import usage_label
from viewer.presentation.jobs.progress import Progress, advance, halt, progress_of


@dataclass(frozen=True, slots=True)
class ShownJob:
    """A job with its progress. ``event_list`` has all rows."""

    job: Job
    progress: Progress
    event_list: EventList


def shown_job(job: Job) -> ShownJob:
    """Return the job with the progress computed from its events."""
    progress, event_list = progress_of(job.plan), EventList()
    for event in job.events.iterator(chunk_size=1000):
        advance(progress, event.seq, event.kind, event.data)
        add_events(event_list, [event])
    if job.has_ended:
        halt(
            progress,
            has_failed=job.status == Job.Status.FAILED,
            has_succeeded=job.status == Job.Status.SUCCEEDED,
        )
    return ShownJob(job, progress, event_list)


@dataclass(frozen=True, slots=True)
class NextStep:
    """A link to continue a job that did not succeed, or that is at a breakpoint."""

    url: str
    text: str


def next_step(job: Job) -> NextStep | None:
    """Return a link that resumes the job from its last checkpoint.

    None if nothing is left to do or it wrote no checkpoint.
    """
    if not job.has_ended or (job.status == Job.Status.SUCCEEDED and not job.stopped_before):
        return None
    written = job.events.filter(kind="checkpoint").order_by("-seq").values_list("data__id", flat=True)[:1]
    last = Checkpoint.objects.filter(location=job.location, checkpoint_id__in=list(written)).first()
    if last:
        words = (
            _("Resume from the breakpoint") if job.stopped_before else _("Resume from its last checkpoint")
        )
        return NextStep(reverse("resume", args=[last.pk]), words)
    return None


def retry_url(job: Job) -> str:
    """Return the address of the job's form with its values; empty if it succeeded or cannot be repeated."""
    if not job.has_ended or job.status == Job.Status.SUCCEEDED or job.kind == Job.Kind.SCORE:
        return ""
    if job.kind == Job.Kind.RUN:
        return f"{reverse('new-run', args=[job.location.uid])}?retry={job.pk}"
    return f"{reverse(job.kind, args=[job.checkpoint.pk])}?retry={job.pk}" if job.checkpoint else ""


def limits_shown(job: Job) -> list[str]:
    """Return a sentence for each of the job's own limits, with its usage."""
    waits = [
        (one.asked_at, one.answered_at or one.withdrawn_at) for one in job.questions.order_by("asked_at")
    ]
    used = {"tokens": job.tokens, "steps": job.steps_used, "seconds": seconds_of(job, waits)}
    return [usage_label(one, used[one.measure]) for one in limits_in("job", job.limits)]


def branch_url(job: Job) -> str:
    """Return the address of the newest checkpoint of the job's branch; empty if there is none."""
    if job.run is None:
        return ""
    newest = (
        job.run.checkpoints.filter(recorded_branch=job.branch).select_related("run").order_by("-row").first()
    )
    return newest.get_absolute_url() if newest else ""


def start_url(job: Job) -> str:
    """Return the address of the checkpoint that the job started from; empty if it is gone."""
    return job.checkpoint.get_absolute_url() if job.checkpoint else ""


@dataclass(frozen=True, slots=True)
class Published:
    """What a job has written to a thread. ``url`` is empty if the thread is not listed."""

    text: str
    url: str


def published(job: Job) -> Published | None:
    """Return what the job published last; None if it published nothing."""
    event = job.events.filter(kind="published").order_by("-seq").first()
    if event is None:
        return None
    count, thread = int(event.data.get("checkpoints") or 0), str(event.data.get("thread"))
    text = ngettext(
        "%(count)s checkpoint written to %(thread)s.", "%(count)s checkpoints written to %(thread)s.", count
    )
    if not count:
        text = _("%(thread)s has all of these checkpoints already.")
    run = job.location.runs.filter(key=thread, parent=None).first()
    return Published(
        text % {"count": count_text(count), "thread": thread}, run.get_absolute_url() if run else ""
    )

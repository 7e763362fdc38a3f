"""What templates say of jobs, and the place on a page that stays up to date."""

from typing import Any

from django import template
from django.utils.safestring import SafeString

from viewer import wording
from viewer.jobs import sentences
from viewer.jobs.showing import branch_url, shown_job
from viewer.models import Job, Location

register = template.Library()


@register.filter
def job_sentence(job: Job) -> SafeString:
    """What the job does or has done."""
    return sentences.sentence(job)


@register.filter
def job_hint(job: Job) -> str:
    """What is waited for, or what one can do next."""
    return sentences.hint(job)


@register.filter
def job_elapsed(job: Job) -> str:
    """How long it has run."""
    return sentences.elapsed(job)


@register.filter
def action_word(action: str) -> str:
    """What happens to a step of the plan."""
    return wording.action_word(action)


@register.filter
def action_sign(action: str) -> str:
    """The same as one character."""
    return wording.action_sign(action)


@register.filter
def reason_words(reason: str) -> str:
    """Why it happens."""
    return wording.reason_words(reason)


@register.filter
def job_branch_url(job: Job) -> str:
    """Where its branch is seen; empty where its run is gone."""
    return branch_url(job)


@register.inclusion_tag("viewer/jobs/_live.html")
def live(location: Location) -> dict[str, Any]:
    """The place of a page that follows its location: its jobs' bars, and word of new checkpoints."""
    unfinished = Job.objects.unfinished().filter(location=location).select_related("run", "location")
    return {
        "location": location,
        "ended": Job.objects.ended().filter(location=location).count(),
        "jobs": [shown_job(job) for job in unfinished.order_by("created_at")],
    }

"""What templates say of jobs, and the place on a page that stays up to date."""

from collections.abc import Mapping
from typing import Any

from django import template

from viewer import wording
from viewer.jobs import sentences
from viewer.jobs.limits import stopped_words
from viewer.jobs.showing import branch_url, limits_shown, next_step, retry_url, shown_job, start_url
from viewer.jobs.waiting import wait_of
from viewer.jobs.warnings import warnings_of
from viewer.models import Job, Location
from viewer.picture.colours import job_colour

register = template.Library()
register.filter("job_sentence", sentences.sentence)
register.filter("job_hint", sentences.hint)
register.filter("job_elapsed", sentences.elapsed)
register.filter("job_branch_url", branch_url)
register.filter("job_start_url", start_url)
register.filter("job_waiting_since", sentences.waiting_since)
register.filter("job_waited", sentences.waited)
register.filter("job_attempt", sentences.attempt_words)
register.filter("job_status", sentences.status_words)
register.filter("job_status_class", sentences.status_class)
register.filter("job_lateness", sentences.lateness)
register.filter("job_next", next_step)
register.filter("job_retry_url", retry_url)
register.filter("job_limits", limits_shown)
register.filter("job_stopped", stopped_words)
register.filter("job_wait", wait_of)
register.filter("job_warnings", warnings_of)
register.filter("job_colour", job_colour)
register.filter("action_word", wording.action_word)
register.filter("reason_words", wording.reason_words)


@register.inclusion_tag("viewer/jobs/_live.html", takes_context=True)
def live(context: Mapping[str, Any], location: Location) -> dict[str, Any]:
    """The place of a page that follows its location: its jobs' bars, and word of new checkpoints."""
    unfinished = Job.objects.unfinished().filter(location=location).select_related("run", "location")
    return {
        "location": location,
        "may_run": context["may_run"],
        "ended": Job.objects.ended().filter(location=location).count(),
        "jobs": [shown_job(job) for job in unfinished.order_by("created_at")],
    }

"""Filters for jobs, and the live area of a page."""

from collections.abc import Mapping
from typing import Any

from django import template

from viewer.launching import labels
from viewer.models import Job, Location
from viewer.presentation.jobs import status
from viewer.presentation.jobs.pages import (
    branch_url,
    limits_shown,
    next_step,
    published,
    retry_url,
    shown_job,
    start_url,
)
from viewer.presentation.jobs.status import limit_label, wait_of, warnings_of
from viewer.presentation.run.branches import job_colour
from viewer.records.hosts import is_stalled

register = template.Library()
register.filter("job_sentence", status.sentence)
register.filter("job_hint", status.hint)
register.filter("job_elapsed", status.elapsed)
register.filter("job_branch_url", branch_url)
register.filter("job_start_url", start_url)
register.filter("job_waiting_since", status.waiting_since)
register.filter("job_waited", status.waited)
register.filter("job_attempt", status.attempt_label)
register.filter("job_status", status.status_label)
register.filter("job_status_class", status.status_class)
register.filter("job_lateness", status.lateness)
register.filter("job_next", next_step)
register.filter("job_retry_url", retry_url)
register.filter("job_limits", limits_shown)
register.filter("job_stopped", limit_label)
register.filter("job_published", published)
register.filter("job_wait", wait_of)
register.filter("job_warnings", warnings_of)
register.filter("job_colour", job_colour)
register.filter("job_is_stalled", is_stalled)
register.filter("action_label", labels.action_label)
register.filter("reason_label", labels.reason_label)


@register.inclusion_tag("live/_location.html", takes_context=True)
def live(context: Mapping[str, Any], location: Location) -> dict[str, Any]:
    """Return the context of a page's live area: the location's revision and running jobs."""
    unfinished = Job.objects.unfinished().filter(location=location).select_related("run", "location")
    return {
        "location": location,
        "can_run": context["can_run"],
        "ended": Job.objects.ended().filter(location=location).count(),
        "jobs": [shown_job(job) for job in unfinished.order_by("created_at")],
    }

"""A job in words: one sentence for its bar, its page and its row."""

from django.utils import timezone
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from viewer.models import Job

Status = Job.Status

FORKS: dict[str, str | Promise] = {
    Status.QUEUED: _("Waiting to fork to {branch}"),
    Status.STARTING: _("Starting the fork to {branch}"),
    Status.RUNNING: _("Forking to {branch}"),
    Status.SUCCEEDED: _("Forked to {branch}"),
    Status.FAILED: _("The fork to {branch} failed"),
    Status.CANCELLED: _("The fork to {branch} was cancelled"),
    Status.INTERRUPTED: _("The fork to {branch} was cut off"),
}
RESUMES: dict[str, str | Promise] = {
    Status.QUEUED: _("Waiting to resume {branch}"),
    Status.STARTING: _("Starting to resume {branch}"),
    Status.RUNNING: _("Resuming {branch}"),
    Status.SUCCEEDED: _("Resumed {branch} to its end"),
    Status.FAILED: _("Resuming {branch} failed"),
    Status.CANCELLED: _("Resuming {branch} was cancelled"),
    Status.INTERRUPTED: _("Resuming {branch} was cut off"),
}
# What a person waits for, or can do next.
HINTS: dict[str, str | Promise] = {
    Status.QUEUED: _("It starts as soon as a worker is free."),
    Status.STARTING: _("The project's environment is loading; this takes some seconds."),
    Status.CANCELLED: _("What it had written until then is kept."),
    Status.INTERRUPTED: _("It may have called models. Nothing starts it again but you."),
}


def sentence(job: Job) -> SafeString:
    """What the job does or has done, with the branch's name emphasised."""
    words = (FORKS if job.kind == Job.Kind.FORK else RESUMES)[job.status]
    return format_html(str(words), branch=format_html("<strong>{}</strong>", job.branch or _("the run")))


def hint(job: Job) -> str:
    """What is waited for, or what one can do next; empty where there is nothing to say."""
    if job.is_being_cancelled:
        return str(_("Cancelling: the run is asked to stop, and ended where it does not."))
    return str(HINTS.get(job.status, ""))


def elapsed(job: Job) -> str:
    """How long it has run, as minutes and seconds; empty where it has not started."""
    if job.started_at is None:
        return ""
    seconds = int(((job.ended_at or timezone.now()) - job.started_at).total_seconds())
    hours, rest = divmod(max(seconds, 0), 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"

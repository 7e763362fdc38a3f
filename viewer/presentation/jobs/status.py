"""Sentences about a job, for its bar, its page and its row."""

from datetime import datetime

from django.utils import timezone
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from viewer.formats.amounts import duration
from viewer.models import Job
from viewer.presentation.jobs.limit_labels import limit_label
from viewer.presentation.jobs.waiting import wait_of

Status = Job.Status

FORKS: dict[str, str | Promise] = {
    Status.QUEUED: _("Waiting to fork to {branch}"),
    Status.STARTING: _("Starting the fork to {branch}"),
    Status.RUNNING: _("Forking to {branch}"),
    Status.SUCCEEDED: _("Forked to {branch}"),
    Status.FAILED: _("The fork to {branch} failed"),
    Status.CANCELLED: _("The fork to {branch} was cancelled"),
    Status.INTERRUPTED: _("The fork to {branch} was interrupted"),
}
RESUMES: dict[str, str | Promise] = {
    Status.QUEUED: _("Waiting to resume {branch}"),
    Status.STARTING: _("Starting to resume {branch}"),
    Status.RUNNING: _("Resuming {branch}"),
    Status.SUCCEEDED: _("Resumed and completed {branch}"),
    Status.FAILED: _("Resuming {branch} failed"),
    Status.CANCELLED: _("Resuming {branch} was cancelled"),
    Status.INTERRUPTED: _("Resuming {branch} was interrupted"),
}
RUNS: dict[str, str | Promise] = {
    Status.QUEUED: _("Waiting to start {name}"),
    Status.STARTING: _("Starting {name}"),
    Status.RUNNING: _("Running {name}"),
    Status.SUCCEEDED: _("Completed {name}"),
    Status.FAILED: _("The run of {name} failed"),
    Status.CANCELLED: _("The run of {name} was cancelled"),
    Status.INTERRUPTED: _("The run of {name} was interrupted"),
}
PUBLICATIONS: dict[str, str | Promise] = {
    Status.QUEUED: _("Waiting to publish {branch}"),
    Status.STARTING: _("Starting to publish {branch}"),
    Status.RUNNING: _("Publishing {branch}"),
    Status.SUCCEEDED: _("Published {branch}"),
    Status.FAILED: _("Publishing {branch} failed"),
    Status.CANCELLED: _("Publishing {branch} was cancelled"),
    Status.INTERRUPTED: _("Publishing {branch} was interrupted"),
}
SCORES: dict[str, str | Promise] = {
    Status.QUEUED: _("Waiting to score {branch}"),
    Status.STARTING: _("Starting to score {branch}"),
    Status.RUNNING: _("Scoring {branch}"),
    Status.SUCCEEDED: _("Scored {branch}"),
    Status.FAILED: _("Scoring {branch} failed"),
    Status.CANCELLED: _("Scoring {branch} was cancelled"),
    Status.INTERRUPTED: _("Scoring {branch} was interrupted"),
}
SENTENCES = {
    Job.Kind.FORK: FORKS,
    Job.Kind.RESUME: RESUMES,
    Job.Kind.RUN: RUNS,
    Job.Kind.PUBLISH: PUBLICATIONS,
    Job.Kind.SCORE: SCORES,
}
STOPPED: dict[str, str | Promise] = {
    Job.Kind.FORK: _("The fork to {branch} stopped at a limit"),
    Job.Kind.RESUME: _("Resuming {branch} stopped at a limit"),
    Job.Kind.RUN: _("The run of {name} stopped at a limit"),
    Job.Kind.PUBLISH: _("Publishing {branch} stopped at a limit"),
    Job.Kind.SCORE: _("Scoring {branch} stopped at a limit"),
}
AT_BREAKPOINT: dict[str, str | Promise] = {
    Job.Kind.FORK: _("The fork to {branch} is waiting at a breakpoint"),
    Job.Kind.RESUME: _("{branch} is waiting at a breakpoint"),
    Job.Kind.RUN: _("The run of {name} is waiting at a breakpoint"),
}
ASKING: dict[str, str | Promise] = {
    Job.Kind.FORK: _("The fork to {branch} is waiting for an answer"),
    Job.Kind.RESUME: _("Resuming {branch} is waiting for an answer"),
    Job.Kind.RUN: _("The run of {name} is waiting for an answer"),
    Job.Kind.PUBLISH: _("Publishing {branch} is waiting for an answer"),
    Job.Kind.SCORE: _("Scoring {branch} is waiting for an answer"),
}
INCOMPLETE: dict[str, str | Promise] = {
    Job.Kind.FORK: _("Forked to {branch}, but checkpoints are missing"),
    Job.Kind.RESUME: _("Resumed and completed {branch}, but checkpoints are missing"),
    Job.Kind.RUN: _("Completed {name}, but checkpoints are missing"),
    Job.Kind.PUBLISH: _("Published {branch}, but checkpoints are missing"),
    Job.Kind.SCORE: _("Scored {branch}, but checkpoints are missing"),
}
# What happens next, or what a person can do.
HINTS: dict[str, str | Promise] = {
    Status.STARTING: _("Loading the project's environment. This takes a few seconds."),
    Status.CANCELLED: _("Its checkpoints are kept."),
    Status.INTERRUPTED: _("It may have called models. It is not restarted automatically."),
}


def sentence(job: Job) -> SafeString:
    """Return a sentence about the job with the name of its branch or run emphasised."""
    is_run = job.kind == Job.Kind.RUN
    text = SENTENCES[Job.Kind(job.kind)][job.status]
    if job.is_stopped and job.has_ended:
        text = STOPPED[job.kind]
    elif job.is_incomplete:
        text = INCOMPLETE[job.kind]
    elif job.is_at_breakpoint:
        text = AT_BREAKPOINT[job.kind]
    elif job.is_waiting_for_an_answer and not job.is_being_cancelled:
        text = ASKING[job.kind]
    requested_name = job.request.get("name") or job.request.get("entry_point")
    name = format_html("<strong>{}</strong>", (requested_name if is_run else job.branch) or _("the run"))
    return format_html(str(text), name=name, branch=name)


def attempt_label(job: Job) -> str:
    """Return a label for an attempt that wrote no checkpoint: ``fork failed``."""
    kind = {"fork": _("fork"), "resume": _("resume")}.get(job.kind, _("new run"))
    return f"{kind} {status_label(job)}"


def hint(job: Job) -> str:
    """Return what the job waits for, or what a person can do next; empty if neither applies."""
    if job.is_being_cancelled:
        return str(_("Cancelling. The run is asked to stop, and killed if it does not."))
    if job.is_stopped:
        kept = HINTS[Status.CANCELLED] if job.has_ended else _("It is being asked to stop.")
        return f"{limit_label(job)} {kept}"
    if job.is_at_breakpoint:
        return str(_("Next: %(units)s. Resume it to go on.")) % {"units": ", ".join(job.stopped_before)}
    wait = wait_of(job)
    if wait:
        return str(_("Waiting %(for_what)s.")) % {"for_what": wait.text.rstrip(".")}
    return str(HINTS.get(job.status, ""))


def status_label(job: Job) -> str:
    """Return the status in a word or two."""
    if job.is_stopped:
        return str(_("stopped at a limit") if job.has_ended else _("stopping"))
    if job.is_incomplete:
        return str(_("checkpoints missing"))
    if job.is_at_breakpoint:
        return str(_("waiting at a breakpoint"))
    if job.is_waiting_for_an_answer and not job.is_being_cancelled:
        return str(_("waiting for an answer"))
    return str(job.get_status_display())


def status_class(job: Job) -> str:
    """Return the CSS class suffix of the status."""
    if job.is_waiting_for_an_answer or job.is_at_breakpoint:
        return "asking"
    return str(Status.INTERRUPTED if job.is_incomplete else job.status)


def waiting_since(job: Job) -> datetime | None:
    """Return when the job began to wait for an answer; None if it does not wait."""
    if not job.is_waiting_for_an_answer:
        return None
    return job.questions.waiting().order_by("asked_at").values_list("asked_at", flat=True).first()


def waited(job: Job) -> str:
    """Return how long the job has waited for the current answer, such as ``14 s``."""
    since = waiting_since(job)
    return duration(int((timezone.now() - since).total_seconds())) if since else ""


def lateness(job: Job) -> str:
    """Return how late the job started and why; empty if it was on time."""
    if job.start_at is None or job.started_at is None:
        return ""
    minutes = int((job.started_at - job.start_at).total_seconds() // 60)
    if minutes < 1:
        return ""
    due = job.became_due_at or job.started_at
    worker_was_down = (due - job.start_at).total_seconds() >= 60
    why = _("no worker was running") if worker_was_down else _("it waited for a free slot or a limit")
    late = ngettext("%(count)d minute late: %(why)s", "%(count)d minutes late: %(why)s", minutes)
    return late % {"count": minutes, "why": why}


def elapsed(job: Job) -> str:
    """Return how long the job has run, such as ``1 h 2 min``; empty if it has not started."""
    if job.started_at is None:
        return ""
    return duration(max(int(((job.ended_at or timezone.now()) - job.started_at).total_seconds()), 0))

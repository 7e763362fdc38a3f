"""A job in words: one sentence for its bar, its page and its row."""

from datetime import datetime

from django.utils import timezone
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from viewer.jobs.limits.usage import limit_label
from viewer.models import Job
from viewer.presentation.jobs.waiting import wait_of

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
RUNS: dict[str, str | Promise] = {
    Status.QUEUED: _("Waiting to start {name}"),
    Status.STARTING: _("Starting {name}"),
    Status.RUNNING: _("Running {name}"),
    Status.SUCCEEDED: _("Ran {name} to its end"),
    Status.FAILED: _("The new run of {name} failed"),
    Status.CANCELLED: _("The new run of {name} was cancelled"),
    Status.INTERRUPTED: _("The new run of {name} was cut off"),
}
STOPPED: dict[str, str | Promise] = {
    Job.Kind.FORK: _("The fork to {branch} stopped at a limit"),
    Job.Kind.RESUME: _("Resuming {branch} stopped at a limit"),
    Job.Kind.RUN: _("The new run of {name} stopped at a limit"),
}
ASKING: dict[str, str | Promise] = {
    Job.Kind.FORK: _("The fork to {branch} waits for an answer"),
    Job.Kind.RESUME: _("The resume of {branch} waits for an answer"),
    Job.Kind.RUN: _("The run of {name} waits for an answer"),
}
INCOMPLETE: dict[str, str | Promise] = {
    Job.Kind.FORK: _("Forked to {branch}, but checkpoints are missing"),
    Job.Kind.RESUME: _("Resumed {branch} to its end, but checkpoints are missing"),
    Job.Kind.RUN: _("Ran {name} to its end, but checkpoints are missing"),
}
# What a person waits for, or can do next.
HINTS: dict[str, str | Promise] = {
    Status.STARTING: _("The project's environment is loading; this takes some seconds."),
    Status.CANCELLED: _("What it had written until then is kept."),
    Status.INTERRUPTED: _("It may have called models. Nothing starts it again but you."),
}


def sentence(job: Job) -> SafeString:
    """What the job does or has done, with the branch's or the run's name emphasised."""
    is_run = job.kind == Job.Kind.RUN
    words = (RUNS if is_run else FORKS if job.kind == Job.Kind.FORK else RESUMES)[job.status]
    if job.is_stopped and job.has_ended:
        words = STOPPED[job.kind]
    elif job.is_incomplete:
        words = INCOMPLETE[job.kind]
    elif job.is_waiting_for_an_answer and not job.is_being_cancelled:
        words = ASKING[job.kind]
    begun = job.request.get("name") or job.request.get("entry_point")
    name = format_html("<strong>{}</strong>", (begun if is_run else job.branch) or _("the run"))
    return format_html(str(words), name=name, branch=name)


def attempt_words(job: Job) -> str:
    """An attempt that wrote no checkpoint, in a few words: ``fork failed``."""
    kind = {"fork": _("fork"), "resume": _("resume")}.get(job.kind, _("new run"))
    return f"{kind} {status_words(job)}"


def hint(job: Job) -> str:
    """What is waited for, or what one can do next; empty where there is nothing to say."""
    if job.is_being_cancelled:
        return str(_("Cancelling: the run is asked to stop, and ended where it does not."))
    if job.is_stopped:
        kept = HINTS[Status.CANCELLED] if job.has_ended else _("It is asked to stop.")
        return f"{limit_label(job)} {kept}"
    wait = wait_of(job)
    if wait:
        return str(_("Waits %(for_what)s.")) % {"for_what": wait.words.rstrip(".")}
    return str(HINTS.get(job.status, ""))


def status_words(job: Job) -> str:
    """How it stands, in a word or two."""
    if job.is_stopped:
        return str(_("stopped at a limit") if job.has_ended else _("stopping"))
    if job.is_incomplete:
        return str(_("checkpoints missing"))
    if job.is_waiting_for_an_answer and not job.is_being_cancelled:
        return str(_("waiting for an answer"))
    return str(job.get_status_display())


def status_class(job: Job) -> str:
    """How its status is coloured: by the status, or as a warning."""
    if job.is_waiting_for_an_answer:
        return "asking"
    return str(Status.INTERRUPTED if job.is_incomplete else job.status)


def waiting_since(job: Job) -> datetime | None:
    """When it began to wait for an answer; None where it waits for none."""
    if not job.is_waiting_for_an_answer:
        return None
    return job.questions.waiting().order_by("asked_at").values_list("asked_at", flat=True).first()


def waited(job: Job) -> str:
    """How long it has waited for the present answer, as minutes and seconds."""
    since = waiting_since(job)
    return clock((timezone.now() - since).total_seconds()) if since else ""


def lateness(job: Job) -> str:
    """How much later than asked it has started, and why; empty where it was in time."""
    if job.start_at is None or job.started_at is None:
        return ""
    minutes = int((job.started_at - job.start_at).total_seconds() // 60)
    if minutes < 1:
        return ""
    noticed = job.became_due_at or job.started_at
    is_noticed_late = (noticed - job.start_at).total_seconds() >= 60
    why = _("no worker was up in time") if is_noticed_late else _("it had to wait for a place or for room")
    late = ngettext("%(count)d minute late: %(why)s", "%(count)d minutes late: %(why)s", minutes)
    return late % {"count": minutes, "why": why}


def elapsed(job: Job) -> str:
    """How long it has run, as minutes and seconds; empty where it has not started."""
    if job.started_at is None:
        return ""
    return clock(((job.ended_at or timezone.now()) - job.started_at).total_seconds())


def clock(passed: float) -> str:
    """Seconds as ``0:14`` or ``1:02:03``."""
    hours, rest = divmod(max(int(passed), 0), 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"

"""Filters and tags for jobs, their questions, and the hosts on which they run."""

from collections.abc import Mapping
from typing import Any

from django import template
from django.utils.translation import gettext as _

from viewer.launching import labels
from viewer.models import Job, Location, NotificationTarget, Question, Right, Run
from viewer.models.roles import present_access, visible_rows
from viewer.presentation.hosts import ShownHost, hosts_if_several
from viewer.presentation.isolation import asked_for, in_force
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
from viewer.presentation.jobs.status import Wait, limit_label, wait_of, warnings_of
from viewer.presentation.run.branches import job_colour
from viewer.records.hosts import is_stalled
from viewer.records.notifications import is_muted
from viewer.records.permissions import may_at
from viewer.records.questions import redacted_answer
from viewer.web.launch.answers import AnswersPart, asked_part

# Filters for jobs, and the live area of a page.


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
register.filter("asked_isolation", lambda project: list(asked_for(project)))
register.filter("job_isolation", lambda job: list(in_force(job.isolation)))
register.filter("job_stopped", limit_label)
register.filter("job_published", published)
register.filter("job_wait", wait_of)
register.filter("job_warnings", warnings_of)
register.filter("job_colour", job_colour)
register.filter("job_is_stalled", is_stalled)
register.filter("action_label", labels.action_label)
register.filter("reason_label", labels.reason_label)
register.filter("tool_choice_label", labels.tool_choice_label)
register.filter("asker", lambda question: labels.asker_label(question.context))


@register.filter
def at(can_run: bool, location: int | None) -> bool:
    """Return whether somebody who can run may do so at the location of a row, by its key."""
    return bool(can_run) and (location is None or may_at(Right.RUN, location))


@register.filter
def may_continue(wait: Wait | None, can_administer: bool) -> bool:
    """Return whether a job waits for the decision of an admin, who reads the page."""
    if wait is None or wait.kind != "admin" or not can_administer:
        return False
    return may_at(Right.MEMBERS, wait.job.location_id)


@register.inclusion_tag("live/_location.html", takes_context=True)
def live(context: Mapping[str, Any], location: Location, run: Run | None = None) -> dict[str, Any]:
    """Return the context of a page's live area: the location's revision and running jobs.

    That of a run also shows who else has it open.
    """
    unfinished = Job.objects.unfinished().filter(location=location).select_related("run", "location")
    return {
        "location": location,
        "run": run,
        "is_shared": context["is_shared"],
        "can_run": context["can_run"],
        "ended": Job.objects.ended().filter(location=location).count(),
        "jobs": [shown_job(job) for job in unfinished.order_by("created_at")],
    }


@register.simple_tag(takes_context=True)
def mute_choice(context: Mapping[str, Any], run: Run) -> str:
    """Return ``mute`` or ``unmute``, for the menu of a run of somebody who is notified; else nothing."""
    user = context["request"].user
    if not NotificationTarget.objects.filter(user=user.pk).exists():
        return ""
    return "unmute" if is_muted(user, run) else "mute"


# Tags and filters for the questions that runs ask.


@register.simple_tag
def questions_waiting() -> int:
    """Return the number of questions that wait for an answer."""
    access = present_access()
    questions = visible_rows(Question, access) if access else Question.objects.all()
    return int(questions.waiting().count())


@register.filter
def answer_shown(question: Question) -> str:
    """Return the answer without secrets; what was chosen for a tool's call by its label."""
    answer = redacted_answer(question)
    return labels.tool_choice_label(answer) if question.kind == Question.Kind.TOOL_CALL else answer


@register.filter
def html_mark(question: Question) -> str:
    """Return what distinguishes the question's element ids: the job's id and the question's number."""
    return f"{question.job_id}-{question.number}"


@register.simple_tag
def suggested_answers(question: Question, sent: AnswersPart | None) -> AnswersPart | None:
    """Return the form of the answers that the question suggests, or the one that was sent.

    None if its engine suggests none.
    """
    return sent or asked_part(question)


@register.filter
def answer_effect(question: Question) -> str:
    """Return what an answer continues, as a sentence."""
    if question.job.kind == Job.Kind.FORK:
        return _("Your answer continues this fork only. The original still waits and can be answered.")
    return _("Your answer continues the run itself.")


@register.filter
def answer_hint(question: Question) -> str:
    """Return what the person who answers should do, as a sentence."""
    if question.kind == Question.Kind.HUMAN_INPUT:
        return _("Review the output. Describe what to improve to have it redone, or accept it.")
    if question.kind == Question.Kind.TEXT_INPUT:
        return _("The run asks for text input.")
    if question.kind == Question.Kind.PROGRAM_INPUT:
        return _("The program waits for a line of input, as in a terminal.")
    if question.choices:
        return _("Choose an outcome, or write feedback and a model chooses the outcome.")
    return _("Write feedback. It is passed to the next step.")


@register.filter
def empty_answer_label(question: Question) -> str:
    """Return the label of the button that sends an empty answer."""
    if question.kind == Question.Kind.HUMAN_INPUT:
        return _("Accept")
    if question.kind == Question.Kind.PROGRAM_INPUT:
        return _("Send an empty line")
    if question.kind == Question.Kind.TEXT_INPUT:
        return _("Send an empty answer")
    outcome = str(question.context.get("empty_means") or "")
    if outcome:
        return _("No feedback (“%(outcome)s”)") % {"outcome": outcome}
    return _("No feedback")


# Where a location or a job is, on pages. Nothing is shown if there is only one host.


@register.inclusion_tag("hosts/_where.html")
def where(subject: Location | Job, hosts: Mapping[int, ShownHost] | str = "") -> dict[str, Any]:
    """Show the host of a location or job, whether it is away, and the pool of its location.

    A page with many passes all ``hosts``.
    """
    location = subject.location if isinstance(subject, Job) else subject
    found = hosts_if_several() if isinstance(hosts, str) else hosts
    shown = found.get(subject.host_id or location.host_id)
    return {"shown": shown, "pool": location.pool if shown else None}

"""The pages of jobs with their daily limits, and the inbox with the questions that their runs ask."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from viewer.engines import engine_of
from viewer.engines.answer_schema import AnswerInvalid
from viewer.engines.protocol import Contents, kind_of
from viewer.host_requests import ImportRun, NotReadable, ask
from viewer.launching.start import continue_job, move_start, request_cancel, send_answer
from viewer.messages.translation import translate
from viewer.models import Checkpoint, DayLimits, Job, Project, Question, Right, Run
from viewer.presentation.hosts import hosts_if_several
from viewer.presentation.jobs.pages import command_of, job_list, reproduction_of, script_of, shown_job
from viewer.presentation.jobs.status import daily_usage, wait_of, waiting
from viewer.presentation.run.window import jump_target
from viewer.presentation.run_list import paused_runs
from viewer.records import hosts
from viewer.records.annotations import mark_of
from viewer.records.audit import Action, Audited, record
from viewer.records.bodies import contents_at, shown_body
from viewer.records.permissions import person_of, requires
from viewer.web.launch.conversations import AnswersForm, asked_at, asked_form
from viewer.web.launch.options import DailyLimitsForm, StartTimeForm, limit_texts
from viewer.web.live.feeds import home_state
from viewer.web.views.calls import answers_context

# Jobs: the list, one job as it runs, and cancelling it.


@requires(Right.VIEW)
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """Show the waiting jobs and the table of jobs, or return only the table to a page that refreshes."""
    if request.headers.get("HX-Target") == "job-list":
        context = {"jobs": job_list(request.GET), "hosts": hosts_if_several()}
        return render(request, "jobs/_list.html", context)
    context = _listed(request) | {"day": limits_of_day(), "shows_limits": request.GET.get("show") == "limits"}
    return render(request, "jobs/list.html", context)


@requires(Right.VIEW)
@require_GET
def waiting_now(request: HttpRequest) -> HttpResponse:
    """Return the part of the list with the waiting jobs."""
    return render(request, "queue/_waiting.html", {"waiting": waiting()})


@requires(Right.VIEW)
@require_GET
def wait(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Return why the job waits; empty if it no longer does."""
    job = get_object_or_404(Job.objects.select_related("location", "project", "sweep"), pk=pk)
    waits = wait_of(job) if job.status == Job.Status.QUEUED else None
    if waits is None:
        return HttpResponse()
    return render(request, "queue/_status.html", {"job": job, "wait": waits})


@requires(Right.RUN)
@require_POST
def start(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Reschedule a waiting job, or start it now."""
    job = get_object_or_404(Job, pk=pk)
    form = StartTimeForm(request.POST)
    if not form.is_valid() and job.status == Job.Status.QUEUED:
        return _job_page(request, pk, form)
    if not form.is_valid() or not move_start(job, form.at):
        messages.info(request, _("This job is no longer waiting."))
    return redirect(job)


@requires(Right.MEMBERS)
@require_POST
def continue_waiting(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Let a job start although who requested it has lost the right to run it, as an admin decides."""
    job = get_object_or_404(Job, pk=pk)
    if not continue_job(job, cast(User, request.user)):
        messages.info(request, _("This job does not wait for an admin."))
    return redirect(job)


def _listed(request: HttpRequest) -> dict[str, Any]:
    listed = {"jobs": job_list(request.GET), "hosts": hosts_if_several()}
    return {**listed, "waiting": waiting(), "state": home_state()}


@requires(Right.VIEW)
@require_GET
def show(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show a job: its plan, events and outcome."""
    return _job_page(request, pk)


def _job_page(request: HttpRequest, pk: UUID, refused: StartTimeForm | None = None) -> HttpResponse:
    """The page of a job, with the start time that was ``refused``, if any."""
    related = ("run", "host", "location__host", "checkpoint__run", "project", "requested_by", "code")
    job = get_object_or_404(Job.objects.select_related(*related), pk=pk)
    shown = shown_job(job)
    context = {
        "job": job,
        "hosts": hosts_if_several(),
        "progress": shown.progress,
        "event_list": shown.event_list,
        "questions": job.questions.select_related("answered_by").order_by("number"),
        "engine": engine_of(job.location),
        **answers_context(request, job),
        **_reproduction(job),
        "timing": refused,
    }
    return render(request, "jobs/page.html", context, status=422 if refused else 200)


def _reproduction(job: Job) -> dict[str, Any]:
    """The command and the script that repeat the job, and the names of the values that they lack."""
    what = reproduction_of(job)
    if what is None:
        return {}
    return {"command": command_of(job, what), "script": script_of(job, what), "missing": what.missing}


@requires(Right.CANCEL)
@require_POST
def give_up(request: HttpRequest, pk: UUID) -> HttpResponse:
    """End a job as interrupted whose host is away, as a person decides."""
    job = get_object_or_404(Job.objects.select_related("host", "location__host"), pk=pk)
    if not hosts.give_up(job):
        messages.info(request, _("This job is not stalled."))
    return redirect(job)


@requires(Right.CANCEL)
@require_POST
def cancel(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Request cancellation of a job. Sockets update open pages."""
    job = get_object_or_404(Job, pk=pk)
    is_cancelled = request_cancel(job)
    if request.headers.get("HX-Request"):
        return HttpResponse(status=204)
    if not is_cancelled:
        messages.info(request, _("Nothing to cancel."))
    return redirect(job)


# Daily limits, as the pages show them on which they are changed.


@dataclass(frozen=True, slots=True)
class ShownLimits:
    """``used`` is the usage of each limit, ``zone`` the time zone of the day.

    ``seen`` is the mark of the limits (viewer/records/annotations.py).
    """

    form: DailyLimitsForm
    used: list[str]
    zone: str
    seen: str


def limits_of_day(form: DailyLimitsForm | None = None) -> ShownLimits:
    """The limits of all jobs together; ``form`` is the one that was sent, with its errors."""
    return _shown_limits(DayLimits.current(), Job.objects.all(), form)


def limits_of_project(project: Project, form: DailyLimitsForm | None = None) -> ShownLimits:
    """The limits of one project."""
    return _shown_limits(project.limits, Job.objects.filter(project=project), form)


def _shown_limits(stored: dict[str, Any], jobs: QuerySet[Job], form: DailyLimitsForm | None) -> ShownLimits:
    form = form or DailyLimitsForm(initial=limit_texts(stored), stored=stored)
    return ShownLimits(form, daily_usage(stored, jobs), timezone.get_current_timezone_name(), mark_of(stored))


@requires(Right.LIMITS, everywhere=True)
@require_POST
def day_limits(request: HttpRequest) -> HttpResponse:
    """Save the daily limits of all jobs."""
    form = DailyLimitsForm(request.POST, stored=DayLimits.current())
    if not form.is_valid():
        context = _listed(request) | {"day": limits_of_day(form), "shows_limits": True}
        return render(request, "jobs/list.html", context, status=422)
    with transaction.atomic():
        DayLimits.change(form.limits)
        record(Action.CHANGED, Audited.LIMITS, detail=", ".join(form.limits))
    messages.success(request, _("Limits saved."))
    return redirect("jobs")


# The inbox: questions that wait for an answer, one question, and answering it.


# Runs that wait without a job. The others are on the home page, under its filter.
MAX_PAUSED = 50
RELATED = ("job", "job__run", "job__location", "answered_by")


@requires(Right.VIEW)
@require_GET
def inbox(request: HttpRequest) -> HttpResponse:
    """Show the questions that wait for an answer, the oldest first."""
    return render(request, "inbox/list.html", _waiting())


@requires(Right.VIEW)
@require_GET
def inbox_now(request: HttpRequest) -> HttpResponse:
    """Return the part of the inbox that an open page polls."""
    return render(request, "inbox/_waiting.html", _waiting())


@requires(Right.VIEW)
@require_GET
def show_question(request: HttpRequest, job: UUID, number: int) -> HttpResponse:
    """Show one question, with a form while it waits for an answer."""
    question = get_object_or_404(Question.objects.select_related(*RELATED), job=job, number=number)
    return render(request, "inbox/page.html", {"question": question, "job": question.job})


@requires(Right.ANSWER)
@require_POST
def answer_question(request: HttpRequest, job: UUID, number: int) -> HttpResponse:
    """Answer the question. The first answer wins; a later one gets a notice."""
    question = get_object_or_404(Question.objects.select_related(*RELATED), job=job, number=number)
    person = person_of(request)
    part = typed_answer(request, question)
    is_part = bool(request.headers.get("HX-Request"))
    template = "inbox/_question.html" if is_part else "inbox/page.html"
    context: dict[str, Any] = {"question": question, "job": question.job, "part": part}
    if part and part.text is None:
        return render(request, template, context)
    text = part.text if part and part.text is not None else answer_in(request)
    try:
        is_first = send_answer(question, text, person)
    except AnswerInvalid as invalid:
        return render(request, template, context | {"error": translate(invalid), "typed": text})
    if is_part:
        return render(request, template, context | {"is_late": not is_first})
    if not is_first:
        messages.warning(
            request, _("Your answer was not used: another one arrived first, or the run has ended.")
        )
        return redirect(question)
    messages.success(request, _("Answered. The run continues."))
    return redirect(question.job)


@requires(Right.VIEW)
@require_GET
def inbox_count(request: HttpRequest) -> HttpResponse:
    """Return the header's link to the inbox, with the number of waiting questions."""
    return render(request, "inbox/_link.html", {"oob": True})


@requires(Right.VIEW)
@require_GET
def asked_by_run(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Return what a paused run asks, at the checkpoint ``?at=`` or else where it waits.

    Nothing is asked while a job answers it, and once it is answered.
    """
    run = get_object_or_404(Run.objects.select_related("location__project"), uid=uid)
    ask(ImportRun(run.pk))
    rows = run.checkpoints.select_related("run", "location", "stored_copy")
    at = request.GET.get("at", "")
    found = rows.filter(checkpoint_id=at).first() if at else jump_target(run, "waiting", "")
    context: dict[str, Any] = {"checkpoint": found, "run": run}
    if found:
        with suppress(NotReadable):
            context |= asked_context(found, contents_at(found, shown_body(found)[0]))
    if found and not at:
        # In the inbox, the question may move to another checkpoint.
        context["asked_query"] = ""
    return render(request, "inbox/_asked.html", context)


def asked_context(checkpoint: Checkpoint, contents: Contents) -> dict[str, Any]:
    """Return what the part of a checkpoint's page shows that asks what it waits for."""
    asked = asked_at(checkpoint, contents)
    if asked is None:
        return {}
    kind = kind_of(engine_of(contents), checkpoint.entity)
    under_way = Job.objects.under_way().filter(kind=Job.Kind.RESUME, run=checkpoint.run)
    return {
        "asked": asked,
        "asked_query": f"?{urlencode({'at': checkpoint.checkpoint_id})}",
        "answering": under_way.first(),
        "can_be_answered": kind.is_runnable and not checkpoint.is_pruned,
        "continues_itself": not kind.resumes_last_only or checkpoint.is_last,
    }


def _waiting() -> dict[str, QuerySet[Question] | QuerySet[Run]]:
    """The questions of running jobs, and the newest runs that wait while no job runs them."""
    questions = Question.objects.waiting().select_related(*RELATED).order_by("asked_at", "pk")
    return {"questions": questions, "paused": paused_runs()[:MAX_PAUSED]}


def typed_answer(request: HttpRequest, question: Question) -> AnswersForm | None:
    """Return what was sent with the form of a question that suggests answers; None for the plain form."""
    sent = request.POST.copy()
    if "answer:0" not in sent or "nothing" in sent or not question.is_waiting:
        return None
    if sent.get("choice:0"):
        # A button counts, not what was typed before.
        sent["answer:0"] = ""
    return asked_form(question, sent)


def answer_in(request: HttpRequest) -> str:
    """Return the submitted answer: text, a chosen outcome with text, or nothing."""
    if "nothing" in request.POST:
        return ""
    said = (request.POST.get("choice", ""), request.POST.get("text", "").replace("\r\n", "\n").strip())
    return "\n".join(part for part in said if part)

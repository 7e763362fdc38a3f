"""Jobs: the list, one job as it runs, and cancelling it."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from viewer.engines import engine_of
from viewer.launching.enqueue import move_start, request_cancel
from viewer.models import DayLimits, Job
from viewer.presentation.hosts import hosts_if_several
from viewer.presentation.jobs.pages import job_list, shown_job
from viewer.presentation.jobs.status import wait_of, waiting
from viewer.presentation.reproduction import command_of, reproduction_of, script_of
from viewer.records import hosts
from viewer.records.permissions import viewer_allowed
from viewer.web.forms.options import DailyLimitsForm, StartTimeForm
from viewer.web.live.feeds import home_state
from viewer.web.views.server import limits_of_day


@viewer_allowed
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """Show the waiting jobs and the table of jobs, or return only the table to a page that refreshes."""
    if request.headers.get("HX-Target") == "job-list":
        context = {"jobs": job_list(request.GET), "hosts": hosts_if_several()}
        return render(request, "jobs/_list.html", context)
    context = _listed(request) | {"day": limits_of_day(), "shows_limits": request.GET.get("show") == "limits"}
    return render(request, "jobs/list.html", context)


@require_POST
def day_limits(request: HttpRequest) -> HttpResponse:
    """Save the daily limits of all jobs."""
    form = DailyLimitsForm(request.POST, stored=DayLimits.current())
    if not form.is_valid():
        context = _listed(request) | {"day": limits_of_day(form), "shows_limits": True}
        return render(request, "jobs/list.html", context, status=422)
    DayLimits.change(form.limits)
    messages.success(request, _("Limits saved."))
    return redirect("jobs")


@viewer_allowed
@require_GET
def waiting_now(request: HttpRequest) -> HttpResponse:
    """Return the part of the list with the waiting jobs."""
    return render(request, "queue/_waiting.html", {"waiting": waiting()})


@viewer_allowed
@require_GET
def wait(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Return why the job waits; empty if it no longer does."""
    job = get_object_or_404(Job.objects.select_related("location", "project", "sweep"), pk=pk)
    waits = wait_of(job) if job.status == Job.Status.QUEUED else None
    if waits is None:
        return HttpResponse()
    return render(request, "queue/_status.html", {"job": job, "wait": waits})


@require_POST
def start(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Reschedule a waiting job, or start it now."""
    job = get_object_or_404(Job, pk=pk)
    form = StartTimeForm(request.POST)
    if not form.is_valid():
        messages.error(request, " ".join(str(one) for errors in form.errors.values() for one in errors))
    elif not move_start(job, form.at):
        messages.info(request, _("This job is no longer waiting."))
    return redirect(job)


def _listed(request: HttpRequest) -> dict[str, Any]:
    listed = {"jobs": job_list(request.GET), "hosts": hosts_if_several()}
    return {**listed, "waiting": waiting(), "state": home_state()}


@viewer_allowed
@require_GET
def show(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show a job: its plan, events and outcome."""
    related = ("run", "location__host", "checkpoint", "project", "requested_by")
    job = get_object_or_404(Job.objects.select_related(*related), pk=pk)
    shown = shown_job(job)
    context = {
        "job": job,
        "hosts": hosts_if_several(),
        "progress": shown.progress,
        "event_list": shown.event_list,
        "questions": job.questions.select_related("answered_by").order_by("number"),
        "engine": engine_of(job.location),
        **_reproduction(job),
    }
    return render(request, "jobs/page.html", context)


def _reproduction(job: Job) -> dict[str, Any]:
    """The command and the script that repeat the job, and the names of the values that they lack."""
    what = reproduction_of(job)
    if what is None:
        return {}
    return {"command": command_of(job, what), "script": script_of(job, what), "missing": what.missing}


@require_POST
def give_up(request: HttpRequest, pk: UUID) -> HttpResponse:
    """End a job as interrupted whose host is away, as a person decides."""
    job = get_object_or_404(Job.objects.select_related("location__host"), pk=pk)
    if not hosts.give_up(job):
        messages.info(request, _("This job is not stalled."))
    return redirect(job)


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

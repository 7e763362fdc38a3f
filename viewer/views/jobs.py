"""Jobs: all of them, one of them as it runs, and its cancelling."""

from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from viewer.jobs.showing import shown_job
from viewer.models import Job

JOBS_A_PAGE = 50


@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """Every job, the newest first."""
    jobs = Job.objects.select_related("run", "location", "requested_by")
    page = Paginator(jobs, JOBS_A_PAGE).get_page(request.GET.get("page"))
    return render(request, "viewer/jobs/list.html", {"page": page})


@require_GET
def show(request: HttpRequest, pk: UUID) -> HttpResponse:
    """One job: its plan, its events so far, and what it came to."""
    related = ("run", "location", "checkpoint", "project", "requested_by")
    job = get_object_or_404(Job.objects.select_related(*related), pk=pk)
    shown = shown_job(job)
    context = {"job": job, "progress": shown.progress, "timeline": shown.timeline}
    return render(request, "viewer/jobs/page.html", context)


@require_POST
def cancel(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Ask for a job to be stopped. Open pages are told by their sockets."""
    job = get_object_or_404(Job, pk=pk)
    asked = job.request_cancel()
    if request.headers.get("HX-Request"):
        return HttpResponse(status=204)
    if not asked:
        messages.info(request, _("There was nothing to cancel."))
    return redirect(job)

"""The pages of a fork and a resume."""

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from viewer.engines import engine_of
from viewer.engines.protocol import kind_of
from viewer.launching.preview.next_units import Asked, ask_next
from viewer.launching.requests.requests import ForkRequest, ResumeRequest
from viewer.models import Checkpoint, Job
from viewer.presentation.launch.fork_page import ForkPage, fork_page
from viewer.presentation.launch.sweep_page import SweepPage
from viewer.presentation.run.colors import branch_colours
from viewer.projects.proposing import engine_version, python_version
from viewer.views.launch.launch_requests import before_form, launch_response, retried_job, submission_of

TYPES: dict[str, type[ForkRequest]] = {Job.Kind.FORK: ForkRequest, Job.Kind.RESUME: ResumeRequest}


@require_http_methods(["GET", "POST"])
def fork(request: HttpRequest, pk: int) -> HttpResponse:
    """The form of a fork. Sending it starts the job, once."""
    return _form(request, pk, Job.Kind.FORK)


@require_http_methods(["GET", "POST"])
def resume(request: HttpRequest, pk: int) -> HttpResponse:
    """The form of a resume. Sending it starts the job, once."""
    return _form(request, pk, Job.Kind.RESUME)


@require_POST
def plan(request: HttpRequest, pk: int, kind: str = Job.Kind.FORK) -> HttpResponse:
    """The plan preview of the form. Nothing starts."""
    page = _page(request, get_checkpoint(pk), kind)
    template = "_plan.html" if request.headers.get("HX-Request") else "page.html"
    return render(request, f"forks/{template}", context_of(page) | {"is_update": True})


@require_POST
def next_units(request: HttpRequest, pk: int) -> HttpResponse:
    """Show what would run next after the form's edits, for each unit. Nothing runs."""
    page = _page(request, get_checkpoint(pk), Job.Kind.FORK)
    asked = Asked() if page.form_errors else ask_next(page.request)
    template = "_next.html" if request.headers.get("HX-Request") else "page.html"
    return render(request, f"forks/{template}", context_of(page) | {"asked": asked})


def _form(request: HttpRequest, pk: int, kind: Job.Kind) -> HttpResponse:
    checkpoint = get_checkpoint(pk)
    if response := before_form(request, checkpoint.location):
        return response
    page = _page(request, checkpoint, kind)

    def address_of(job: Job) -> str:
        return f"{checkpoint.get_absolute_url()}&{urlencode({'job': job.pk})}"

    return launch_response(request, page, "forks/page.html", lambda: context_of(page), address_of)


def _page(request: HttpRequest, checkpoint: Checkpoint, kind: str) -> ForkPage:
    retried = retried_job(request, checkpoint=checkpoint, kind=kind)
    return fork_page(TYPES[kind], checkpoint, submission_of(request), retried)


def context_of(page: ForkPage | SweepPage) -> dict[str, Any]:
    """The context of the templates that forks and sweeps share."""
    checkpoint, project = page.checkpoint, page.project
    interpreter = Path(project.interpreter) if project else None
    address = reverse(page.kind, args=[checkpoint.pk])
    engine = engine_of(page.contents)
    return {
        "page": page,
        "address": address,
        "page_address": f"{address}?retry={page.retry.job.pk}" if page.retry else address,
        "plan_address": reverse(f"{page.kind}-plan", args=[checkpoint.pk]),
        "form": page.parts,
        "plan": page.plan if isinstance(page, ForkPage) else None,
        "checkpoint": checkpoint,
        "location": checkpoint.location,
        "run": checkpoint.run,
        "project": project,
        "contents": page.contents,
        "engine": engine,
        "kind": kind_of(engine, page.contents.kind),
        "python_version": python_version(interpreter) if interpreter else "",
        "engine_version": engine_version(interpreter, engine.name) if interpreter else "",
        "colours": branch_colours(checkpoint.run),
    }


def get_checkpoint(pk: int) -> Checkpoint:
    """The row with what a form needs of it. Raises Http404."""
    related = ("location__project", "run__location", "stored_copy")
    return get_object_or_404(Checkpoint.objects.select_related(*related), pk=pk)

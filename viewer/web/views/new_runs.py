"""The page of a new run."""

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from viewer.engines import engine_of
from viewer.engines.protocol import kind_of
from viewer.host_requests import ReadInterpreter, ask
from viewer.models import Job, Location, Project, Run, uuid_of
from viewer.web.forms.locations import allowed_folders
from viewer.web.launch.new_run_page import NewRunPage, chosen_for, new_run_page
from viewer.web.views.forks import (
    before_form,
    launch_response,
    redirect_to_project,
    retried_job,
    submission_of,
)


@require_http_methods(["GET", "POST"])
def new(request: HttpRequest, uid: UUID) -> HttpResponse:
    """The form of a new run at a location. Sending it starts the job, once."""
    location = _location(uid)
    if response := before_form(request, location):
        return response
    if location.project is None:
        return redirect_to_project(location, request.get_full_path())
    page = _page(request, location, location.project)
    return launch_response(request, page, "new_runs/page.html", lambda: _context(page), Job.get_absolute_url)


@require_POST
def plan(request: HttpRequest, uid: UUID) -> HttpResponse:
    """The preview of the form. Nothing starts."""
    location = _location(uid)
    if location.project is None:
        return redirect_to_project(location, reverse("new-run", args=[location.uid]))
    page = _page(request, location, location.project)
    template = "_plan.html" if request.headers.get("HX-Request") else "page.html"
    return render(request, f"new_runs/{template}", _context(page) | {"is_update": True})


@require_GET
def again(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Redirect to the form of a new run, filled with what this run was started with."""
    run = get_object_or_404(Run.objects.select_related("location"), uid=uid)
    return redirect(f"{reverse('new-run', args=[run.location.uid])}?{urlencode({'again': run.uid})}")


def _page(request: HttpRequest, location: Location, project: Project) -> NewRunPage:
    sent = request.POST if request.method == "POST" else request.GET
    uid = uuid_of(sent.get("again", ""))
    repeated = location.runs.select_related("location").filter(uid=uid).first() if uid else None
    retried = retried_job(request, location=location, kind=Job.Kind.RUN)
    chosen = chosen_for(location, project, sent.dict(), repeated, retried)
    return new_run_page(location, project, chosen, submission_of(request))


def _context(page: NewRunPage) -> dict[str, Any]:
    location, project = page.location, page.project
    engine, kinds = engine_of(location), page.chosen.kinds
    facts = ask(ReadInterpreter(project.interpreter, engine.name), host=project.host_id)
    target = page.parts.target["location"].value() or str(location.uid)
    address = reverse("new-run", args=[location.uid])
    query: dict[str, object] = {"again": page.again.uid} if page.again else {"entry_point": page.entry_point}
    if page.retry:
        query["retry"] = page.retry.job.pk
    return {
        "page": page,
        "is_new_run": True,
        "form": page.parts,
        "kinds": kinds,
        "has_kind": bool(kinds.get(page.entry_point)),
        "entities": list(engine.kinds),
        "kind": kind_of(engine, page.entity),
        "engine": engine,
        "location": location,
        "locations": [(one, str(one.uid) == target) for one in project.locations.all()],
        "project": project,
        "address": address,
        "plan_address": reverse("new-run-plan", args=[location.uid]),
        "page_address": f"{address}?{urlencode(query)}" if page.entry_point else address,
        "python_version": facts.python_version,
        "engine_version": facts.engine_version,
        "roots": allowed_folders(location.host),
    }


def _location(uid: UUID) -> Location:
    return get_object_or_404(Location.objects.select_related("project"), uid=uid)

"""The project of a location: proposed from its surroundings, and confirmed by a person."""

from pathlib import Path
from uuid import UUID

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods

from viewer.forms.project import ENTRY_POINT, ProjectForm, initial_of
from viewer.models import Location, Project
from viewer.proposing import ProposedProject, engine_version, propose_project, python_version


@require_http_methods(["GET", "POST"])
def edit(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Show what a location's runs belong to; confirming it allows them to start."""
    location = get_object_or_404(Location.objects.select_related("project"), uid=uid)
    proposed = propose_project(Path(location.path))
    known = location.project or Project.objects.filter(folder=str(proposed.folder)).first()
    back = _safe_next(request) or location.get_absolute_url()
    found = [point.name for point in proposed.entry_points]
    if request.method == "POST":
        form = _sent_form(request, found)
        if form.is_valid():
            _confirm(location, form, request)
            return redirect(back)
    else:
        form = ProjectForm(found, initial=_initial(known, proposed, found))
    interpreter = Path(str(form["interpreter"].value() or "/"))
    context = {
        "location": location,
        "project": known,
        "others": known.locations.exclude(pk=location.pk) if known else [],
        "form": form,
        "kinds": {point.name: point.kind for point in proposed.entry_points},
        "python_version": python_version(interpreter),
        "engine_version": engine_version(interpreter),
        "back": back,
        "next": _safe_next(request),
    }
    return render(request, "viewer/projects/page.html", context, status=422 if form.errors else 200)


def _sent_form(request: HttpRequest, found: list[str]) -> ProjectForm:
    """The form as it was sent: what was found when it was shown may be chosen still."""
    typed = [name for name in request.POST.getlist("entry_points") if ENTRY_POINT.fullmatch(name)]
    return ProjectForm(list(dict.fromkeys(found + typed)), request.POST)


def _initial(known: Project | None, proposed: ProposedProject, found: list[str]) -> dict[str, object]:
    if known:
        return initial_of(known, found)
    return {
        "folder": str(proposed.folder),
        "interpreter": str(proposed.interpreter or ""),
        "environment_file": str(proposed.environment_file or ""),
        "entry_points": found,
    }


@transaction.atomic
def _confirm(location: Location, form: ProjectForm, request: HttpRequest) -> None:
    """A folder is one project, whichever of its locations it is confirmed for."""
    values = dict(form.cleaned_data)
    folder = values.pop("folder")
    project = Project.objects.filter(folder=folder).first() or Project(folder=folder)
    project.change(**values)
    project.confirm(request.user)
    location.project = project
    location.save(update_fields=["project"])


def _safe_next(request: HttpRequest) -> str:
    """Where the person came from, where that is a page of ours; else empty."""
    address = request.POST.get("next") or request.GET.get("next") or ""
    ours = url_has_allowed_host_and_scheme(address, {request.get_host()}, require_https=request.is_secure())
    return address if ours else ""

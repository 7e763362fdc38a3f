"""Locations: the list, one location, adding, refreshing and removing."""

from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.db.models import Case, When
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from viewer.access.permissions import viewer_allowed
from viewer.engines import engine_of
from viewer.formats.amounts import count_text
from viewer.forms.location import LocationForm, allowed_folders
from viewer.importing import (
    UnknownLocation,
    WouldBeLost,
    addable_databases,
    import_added,
    import_location,
    is_indexed,
    open_location,
    prepare_import,
    removal_blocker,
    remove_location,
)
from viewer.messages.translation import translate
from viewer.models import Location, Problem
from viewer.presentation.run_list.page import run_list
from viewer.pruning import is_prunable

PROBLEMS_SHOWN = 200
FAILED_STARTS_SHOWN = 20
LAST_WHAT_IS_FOREIGN = Case(When(kind=Problem.Kind.FOREIGN, then=1), default=0)


@viewer_allowed
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """Show every location with its counts, and the form that adds one."""
    prepare_import()
    return _index(request, LocationForm(), 200)


@require_POST
def add(request: HttpRequest) -> HttpResponse:
    """Add a location and import it, a large one in the background."""
    form = LocationForm(request.POST)
    if form.is_valid():
        try:
            location = open_location(form.cleaned_data["path"], settings.CHECKPOINT_ROOTS)
        except UnknownLocation as error:
            form.add_error("path", str(error))
        else:
            import_added(location)
            return redirect(location)
    form.fields["path"].widget.attrs["autofocus"] = True
    return _index(request, form, 422)


def _index(request: HttpRequest, form: LocationForm, status: int) -> HttpResponse:
    context = {
        "locations": Location.objects.with_counts(),
        "form": form,
        "roots": allowed_folders(),
        "databases": addable_databases(),
    }
    return render(request, "locations/list.html", context, status=status)


@viewer_allowed
@require_GET
def show(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Show a location: its runs, problems and project."""
    location = get_object_or_404(Location.objects.select_related("project"), uid=uid)
    engine = engine_of(location)
    context = {
        "location": location,
        "runs": run_list(location.runs.top_level(), request.GET, shows_location=False),
        "is_prunable": is_prunable(location),
        "undescribed": location.runs.undescribed().count() if is_indexed(location) else 0,
        "is_listing": is_indexed(location) and not location.listed_fingerprint,
        "is_runnable": any(kind.is_runnable for kind in engine.kinds.values()),
        # Where there are many, those that lost something come first.
        "problems": location.problems.order_by(LAST_WHAT_IS_FOREIGN, "source_key")[:PROBLEMS_SHOWN],
        "problem_count": location.problems.count(),
        "would_be_lost": removal_blocker(location),
        "failed_starts": location.jobs.failed_starts().order_by("-created_at")[:FAILED_STARTS_SHOWN],
    }
    part = request.headers.get("HX-Target") == "location-contents"
    return render(request, f"locations/{'_contents' if part else 'page'}.html", context)


@viewer_allowed
@require_POST
def refresh(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Import what is new at a location, and show how much that was."""
    location = get_object_or_404(Location, uid=uid)
    if location.import_state:
        # It goes on in the background.
        location.request_import()
        return redirect(location)
    before = location.checkpoints.count()
    import_location(location)
    location.refresh_from_db()
    found = location.checkpoints.count() - before
    if location.read_error:
        reason = translate(location.read_error)
        messages.error(request, _("This location cannot be read: %(reason)s") % {"reason": reason})
    elif found > 0:
        text = ngettext("%(count)s new checkpoint.", "%(count)s new checkpoints.", found)
        messages.success(request, text % {"count": count_text(found)})
    else:
        messages.info(request, _("Up to date."))
    return redirect(location)


@require_POST
def cancel_import(request: HttpRequest, uid: UUID) -> HttpResponse:
    """End an import in the background. What it has stored stays."""
    location = get_object_or_404(Location, uid=uid)
    location.cancel_import()
    return redirect(location)


@require_POST
def accept_replacement(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Accept the folder or file that replaced the location, as confirmed by a person."""
    location = get_object_or_404(Location, uid=uid)
    if not location.accept_replacement(request.POST.get("identity", "")):
        messages.error(request, _("It changed after this page was loaded. Nothing was accepted."))
    import_added(location)
    return redirect(location)


@require_POST
def remove(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Remove a location, unless something would be lost."""
    location = get_object_or_404(Location, uid=uid)
    try:
        remove_location(location)
    except WouldBeLost as refused:
        messages.error(request, str(refused))
        return redirect(location)
    messages.success(request, _("Removed %(path)s.") % {"path": location.path})
    return redirect("locations")

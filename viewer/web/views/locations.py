"""The pages of locations: adding, showing, pruning and removing them."""

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.db.models import Case, When
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse, reverse_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from viewer import host_requests
from viewer.engines import all_engines, engine_of
from viewer.formats import count_text
from viewer.host_requests import ask
from viewer.messages.translation import translate
from viewer.models import Host, Location, Problem, Right
from viewer.presentation.hosts import hosts_if_several, refusals_at
from viewer.presentation.jobs.status import workers_of
from viewer.presentation.listing import deleted_texts, location_list
from viewer.presentation.run_list import run_list
from viewer.records.audit import Action, Audited, record
from viewer.records.hosts import PoolRefused, allowed_folders, change_pool, chosen_host
from viewer.records.locations import deletes_threads, is_indexed, keeps_files, removal_blocker
from viewer.records.permissions import require_project, requires
from viewer.stores import is_uri
from viewer.validation import MAX_DAYS, number_in
from viewer.web.fields import WholeNumberField

# The form of a location: its path.


class LocationForm(forms.Form):
    """The import checks whether the path may be opened and what is there."""

    path = forms.CharField(
        label=gettext_lazy("Folder or SQLite file"),
        max_length=1000,
        widget=forms.TextInput(
            attrs={
                "class": "input input-mono",
                "placeholder": "/path/to/newsroom/.checkpoints",
                "autocomplete": "off",
                "spellcheck": "false",
                "list": "paths",
                "hx-get": reverse_lazy("location-paths"),
                "hx-trigger": "focus once, input changed delay:100ms",
                "hx-target": "#paths",
                "hx-swap": "innerHTML",
                "hx-sync": "this:replace",
            }
        ),
    )

    def offer_paths(self, host: Host | None) -> None:
        """Complete what is typed with the paths of this host."""
        if host is not None:
            self.fields["path"].widget.attrs["hx-get"] = reverse("location-paths", query={"host": host.pk})

    def clean_path(self) -> str:
        """The path. A connection URI may hold a password, and is not shown again."""
        path = str(self.cleaned_data["path"])
        if is_uri(path):
            self.data = {**self.data, "path": ""}
        is_path = ":" not in path.partition("/")[0] and path not in settings.POSTGRESQL_LOCATIONS
        if is_path and not path.startswith(("/", "~")):
            # It would be relative to the folder in which the server was started.
            raise forms.ValidationError(gettext_lazy("Enter an absolute path."))
        return path


# The form of the rules by which a location is pruned.


class RulesForm(forms.Form):
    """Age, number, branch or thread, of which empty fields are no rules; and whether copies are deleted."""

    days = WholeNumberField(0, MAX_DAYS, label=gettext_lazy("Older than, in days"))
    latest = WholeNumberField(
        1, host_requests.MAX_PRUNE_LATEST, label=gettext_lazy("Keep the newest of each branch")
    )
    branch = forms.CharField(label=gettext_lazy("Only this branch"), required=False, max_length=300)
    thread = forms.CharField(
        label=gettext_lazy("Only this thread"), required=False, max_length=300, strip=False
    )
    whole_threads = forms.BooleanField(label=gettext_lazy("Delete whole threads"), required=False)
    copies = forms.BooleanField(label=gettext_lazy("Delete the stored copies too"), required=False)

    def __init__(self, data: Any, *, of_threads: bool) -> None:
        super().__init__(data)
        for name in ("branch",) if of_threads else ("thread", "whole_threads"):
            del self.fields[name]


# Locations: the list, one location, adding, refreshing and removing.


# The key of the session for a path that was refused.
REFUSED = "refused_location"
MAX_SHOWN_PATH = 1000
PROBLEMS_SHOWN = 200
FAILED_STARTS_SHOWN = 20
LAST_WHAT_IS_FOREIGN = Case(When(kind=Problem.Kind.FOREIGN, then=1), default=0)


@requires(Right.VIEW)
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """Show a page of the locations with their counts, and the form that adds one."""
    ask(host_requests.PrepareImport())
    context = {"locations": location_list(request.GET), **adding_context(request)}
    return render(request, "locations/list.html", context)


def adding_context(request: HttpRequest) -> dict[str, Any]:
    """Return the context of the form that adds a location, with a path that was just refused."""
    refused = request.session.pop(REFUSED, None)
    host = chosen_host(refused["host"] if refused else request.GET.get("host"))
    form = LocationForm(initial={"path": refused["path"]} if refused else None)
    form.offer_paths(host)
    if refused:
        form.fields["path"].widget.attrs |= {
            "autofocus": True,
            "aria-invalid": "true",
            "aria-describedby": "path-error",
        }
    return {
        "form": form,
        "refused": refused,
        "adding_to": host,
        "hosts": hosts_if_several(),
        "roots": allowed_folders(host),
        "databases": ask(host_requests.ListDatabases(), host=host.pk if host else None),
        "snippets": [engine.snippet_template for engine in all_engines()],
    }


@requires(Right.LOCATIONS, everywhere=True)
@require_POST
def add(request: HttpRequest) -> HttpResponse:
    """Add a location and import it, a large one in the background. A refused path is shown again once."""
    is_home = request.POST.get("from") == "home"
    form, host = LocationForm(request.POST), chosen_host(request.POST.get("host"))
    if form.is_valid():
        try:
            opened = ask(
                host_requests.OpenLocation(form.cleaned_data["path"]), host=host.pk if host else None
            )
            location = Location.objects.get(pk=opened)
        except host_requests.UnknownLocation as error:
            form.add_error("path", str(error))
        else:
            ask(host_requests.ImportLocation(location.pk, newest_first=True))
            messages.success(request, _("Added %(path)s.") % {"path": location.path})
            for sentence in ask(host_requests.ListOverlaps(location.pk)):
                messages.warning(request, sentence)
            return redirect("home" if is_home and location.runs.exists() else location)
    reason = " ".join(map(str, form["path"].errors))
    typed = str(form.data.get("path", ""))[:MAX_SHOWN_PATH]
    request.session[REFUSED] = {"path": typed, "error": reason, "host": str(host.pk if host else "")}
    return redirect(reverse("home" if is_home else "locations") + "#add")


@requires(Right.LOCATIONS, everywhere=True)
@require_GET
def found(request: HttpRequest) -> HttpResponse:
    """Return the stores that are no locations, each with a button that adds it if that is allowed."""
    host = chosen_host(request.GET.get("host"))
    stores = ask(host_requests.FindStores(), host=host.pk if host else None)
    advice = {one.title: one.advice for engine in all_engines() for one in engine.known_stores if one.advice}
    context = {
        "stores": [one for one in stores if one.is_readable],
        "unread": [(one, advice.get(one.name, "")) for one in stores if not one.is_readable],
        "from": request.GET.get("from", ""),
        "adding_to": host,
    }
    return render(request, "locations/adding/_found.html", context)


@requires(Right.LOCATIONS, everywhere=True)
@require_GET
def paths(request: HttpRequest) -> HttpResponse:
    """Return the paths in the allowed folders that begin with what was typed."""
    host = chosen_host(request.GET.get("host"))
    typed = host_requests.CompletePath(request.GET.get("path", "")[:MAX_SHOWN_PATH])
    offered = ask(typed, host=host.pk if host else None)
    return render(request, "locations/adding/_paths.html", {"paths": offered})


@requires(Right.LOCATIONS, everywhere=True)
@require_POST
def change(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Change the path of a location that was moved, and import it there."""
    location, typed = get_object_or_404(Location, uid=uid), request.POST.get("path", "").strip()
    try:
        ask(host_requests.ChangePath(location.pk, typed))
    except host_requests.UnknownLocation as error:
        messages.error(request, str(error))
        # Keep a refused path in the form.
        return redirect(f"{location.get_absolute_url()}?{urlencode({'path': typed[:MAX_SHOWN_PATH]})}#path")
    location.refresh_from_db()
    ask(host_requests.ImportLocation(location.pk))
    messages.success(request, _("This location is now at %(path)s.") % {"path": location.path})
    return redirect(location)


@requires(Right.LOCATIONS)
@require_POST
def share(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Put a location, with its project, into a pool of its host, or into none."""
    location = get_object_or_404(Location.objects.select_related("host", "project"), uid=uid)
    require_project(location.project)
    key = request.POST.get("pool", "")
    pool = get_object_or_404(location.host.pools, pk=number_in(key)) if key else None
    try:
        change_pool(location, pool)
    except PoolRefused as refused:
        messages.error(request, translate(refused))
    return redirect(location)


@requires(Right.VIEW)
@require_GET
def show(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Show a location: its runs, problems and project."""
    location = get_object_or_404(Location.objects.select_related("project"), uid=uid)
    engine = engine_of(location)
    requested = Location.ImportState.REQUESTED
    context = {
        "location": location,
        "snippet": engine.snippet_template,
        "runs": run_list(location.runs.top_level(), request.GET, shows_location=False),
        "is_prunable": (keeps_files(location) or deletes_threads(location))
        and not ask(host_requests.IsLocationGone(location.pk)),
        "undescribed": location.runs.undescribed().count() if is_indexed(location) else 0,
        "needs_worker": location.import_state == requested and not workers_of(location.host).is_up,
        "is_listing": is_indexed(location) and not location.listed_fingerprint,
        "is_runnable": location.takes_runs and any(kind.is_runnable for kind in engine.kinds.values()),
        # Where there are many, those that lost something come first.
        "problems": location.problems.order_by(LAST_WHAT_IS_FOREIGN, "source_key")[:PROBLEMS_SHOWN],
        "problem_count": location.problems.count(),
        "would_be_lost": removal_blocker(location),
        "pools": location.host.pools.all(),
        "refusals": refusals_at(location),
        "failed_starts": location.jobs.failed_starts().order_by("-created_at")[:FAILED_STARTS_SHOWN],
    }
    part = request.headers.get("HX-Target") == "location-contents"
    return render(request, f"locations/{'_contents' if part else 'page'}.html", context)


@requires(Right.VIEW)
@require_POST
def refresh(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Import what is new at a location, and show how much that was."""
    location = get_object_or_404(Location, uid=uid)
    if location.import_state:
        # It goes on in the background.
        location.request_import()
        return redirect(location)
    before = location.checkpoints.count()
    ask(host_requests.ImportLocation(location.pk))
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


@requires(Right.LOCATIONS)
@require_POST
def cancel_import(request: HttpRequest, uid: UUID) -> HttpResponse:
    """End an import in the background. What it has stored stays."""
    location = get_object_or_404(Location, uid=uid)
    with transaction.atomic():
        location.cancel_import()
        record(Action.CANCELLED, Audited.LOCATION, location.uid, "import")
    return redirect(location)


@requires(Right.LOCATIONS)
@require_POST
def accept_replacement(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Accept the folder or file that replaced the location, as confirmed by a person."""
    location = get_object_or_404(Location, uid=uid)
    with transaction.atomic():
        if is_accepted := location.accept_replacement(request.POST.get("identity", "")):
            record(Action.CHANGED, Audited.LOCATION, location.uid, "replacement")
    if not is_accepted:
        messages.error(request, _("It changed after this page was loaded. Nothing was accepted."))
    ask(host_requests.ImportLocation(location.pk, newest_first=True))
    return redirect(location)


@requires(Right.LOCATIONS)
@require_POST
def remove(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Remove a location, unless something would be lost."""
    location = get_object_or_404(Location, uid=uid)
    try:
        ask(host_requests.RemoveLocation(location.pk))
    except host_requests.WouldBeLost as refused:
        messages.error(request, str(refused))
        return redirect(location)
    messages.success(request, _("Removed %(path)s.") % {"path": location.path})
    return redirect("locations")


# Prune a location: choose rules, see the exact list, confirm it.


MAX_LISTED = 2_000


@requires(Right.PRUNE)
@require_http_methods(["GET", "POST"])
def prune(request: HttpRequest, uid: UUID) -> HttpResponse:
    """List what the rules of the address would delete; with POST, delete the list of this digest."""
    location = get_object_or_404(Location.objects.select_related("project"), uid=uid)
    status, is_gone = 200, ask(host_requests.IsLocationGone(location.pk))
    only_copies = is_gone or not (keeps_files(location) or deletes_threads(location))
    form = RulesForm(request.POST or request.GET, of_threads=deletes_threads(location) and not is_gone)
    if request.method == "POST":
        status = 422
        if form.is_valid() and _deleted(request, location, _rules(form, only_copies)):
            return redirect(location)
    context: dict[str, Any] = {"location": location, "form": form, "most": MAX_LISTED}
    context |= {"only_copies": only_copies, "is_gone": is_gone, "has_threads": is_indexed(location)}
    if form.is_valid():
        try:
            context["rules"] = rules = _rules(form, only_copies)
            context["plan"] = ask(host_requests.ListPrunable(location.pk, rules))
        except host_requests.PruneRefused as error:
            context["blocker"] = translate(error)
    return render(request, "pruning/page.html", context, status=status)


def _rules(form: RulesForm, only_copies: bool) -> host_requests.PruneRules:
    given = form.cleaned_data
    of_thread = given.get("thread", ""), given.get("whole_threads", False)
    copies = given["copies"] or only_copies
    return host_requests.PruneRules(
        given["days"], given["latest"], given.get("branch", ""), copies, *of_thread
    )


def _deleted(request: HttpRequest, location: Location, rules: host_requests.PruneRules) -> bool:
    """Delete the confirmed list and say so. Returns False, with a message, if nothing was deleted."""
    try:
        done = ask(host_requests.Prune(location.pk, rules, request.POST.get("digest", "")))
    except host_requests.PruneRefused as error:
        messages.error(request, translate(error))
        return False
    for text in deleted_texts(location, done):
        messages.success(request, text)
    for kept in done.kept[:20]:
        reason = {"key": kept.key, "reason": translate(kept.reason)}
        messages.warning(request, _("Not deleted: %(key)s. %(reason)s") % reason)
    return True

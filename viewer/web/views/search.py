"""The form and pages of a search, and the command palette."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse, reverse_lazy
from django.utils.cache import patch_vary_headers
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy
from django.views.decorators.http import require_GET, require_POST

from viewer.engines import all_engines
from viewer.formats import moment_text
from viewer.models import (
    Access,
    Checkpoint,
    Host,
    Job,
    Location,
    Right,
    Run,
    SavedSearch,
    SearchEntry,
    SearchFacet,
    access_of,
    uuid_of,
)
from viewer.presentation.listing import MAX_OFFERED_LOCATIONS, by_newest_run, offered_locations
from viewer.presentation.run.branches import trigger_label
from viewer.records.audit import Audited, opens
from viewer.records.permissions import may, may_everywhere, requires
from viewer.records.search import Results, SearchRefused, progress, search
from viewer.records.search_filters import COMPLETED, FAILED, MAX_VALUE, PRUNED, WAITING, Filters, filters_from
from viewer.validation import number_in, storable
from viewer.web.fields import errors_text

# The form of a search. Whatever it holds is valid: what cannot be understood does not filter.


# Values in one list.
MAX_VALUES = 200
# The fields with a list of values, by their facet.
_FACETS = {"agent": "agent", "unit": "unit", "model": "model", "version": "engine_version"}

# Those of the text field, whose list follows what is typed.
LOCATION_ATTRIBUTES = {
    "spellcheck": "false",
    "list": "location-values",
    "hx-get": reverse_lazy("search-locations"),
    "hx-trigger": "focus once, input changed delay:100ms",
    "hx-target": "#location-values",
    "hx-swap": "innerHTML",
    "hx-sync": "this:replace",
}


def _text(label: Any, **attributes: Any) -> forms.CharField:
    widget = forms.TextInput(attrs={"autocomplete": "off", "maxlength": "300", **attributes})
    return forms.CharField(label=label, required=False, widget=widget)


class SearchForm(forms.Form):
    """The filters of a search, filled in with those of its address."""

    kind = forms.ChoiceField(label=gettext_lazy("Text"))
    location = forms.ChoiceField(label=gettext_lazy("Location"))
    entity = forms.ChoiceField(label=gettext_lazy("Type"))
    status = forms.ChoiceField(
        label=gettext_lazy("Status"),
        choices=[
            ("", gettext_lazy("Any")),
            (FAILED, gettext_lazy("failed")),
            (WAITING, gettext_lazy("waiting for an answer")),
            (COMPLETED, gettext_lazy("completed")),
            (PRUNED, gettext_lazy("pruned at its source")),
        ],
    )
    trigger = forms.ChoiceField(label=gettext_lazy("Written when"))
    agent = _text(gettext_lazy("Agent"))
    unit = _text("")
    model = _text(gettext_lazy("Model"))
    branch = _text(gettext_lazy("Branch"))
    version = _text(gettext_lazy("Engine version"))
    since = _text(pgettext_lazy("the first day of a period", "From"), type="date")
    until = _text(gettext_lazy("To"), type="date")
    tokens = _text(gettext_lazy("Tokens, at least"), inputmode="numeric")
    cost = _text(gettext_lazy("Cost of the run in US$, at least"), inputmode="decimal")
    unattended = forms.BooleanField(label=gettext_lazy("Failed and never re-run"), required=False)
    edited = forms.BooleanField(label=gettext_lazy("Edited"), required=False)

    def __init__(self, filters: Filters) -> None:
        super().__init__(initial={name: getattr(filters, name) for name in self.base_fields}, prefix=None)
        self.fields["unit"].label = units_text()
        self._choose("kind", SearchEntry.Kind.choices)
        self._choose_location()
        kinds = [kind for engine in all_engines() for kind in engine.kinds.values() if kind.name != "unknown"]
        self._choose("entity", [(kind.name, _(kind.label)) for kind in kinds])
        triggers = _values("trigger")
        self._choose("trigger", [(value, trigger_label(value)) for value in triggers])
        self.lists = {name: _values(facet) for name, facet in _FACETS.items()}
        for name in self.lists:
            self.fields[name].widget.attrs["list"] = f"{name}-values"

    def _choose_location(self) -> None:
        """Offer all locations in a list, or if there are many, those with what is typed in their path."""
        known = list(Location.objects.values_list("uid", "path")[: MAX_OFFERED_LOCATIONS + 1])
        if len(known) <= MAX_OFFERED_LOCATIONS:
            self._choose("location", [(str(uid), path) for uid, path in known])
            return
        if uid := uuid_of(str(self.initial["location"])):
            path = Location.objects.filter(uid=uid).values_list("path", flat=True).first()
            self.initial["location"] = path or uid
        label = self.fields["location"].label
        self.fields["location"] = _text(label, **LOCATION_ATTRIBUTES, placeholder=_("Part of the path"))

    def _choose(self, name: str, choices: list[tuple[str, Any]]) -> None:
        """Add these choices, and the present one even if it is not among them."""
        value = str(self.initial[name])
        known = {choice for choice, _label in choices}
        extra = [(value, value)] if value and value not in known else []
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", gettext_lazy("Any")), *choices, *extra]


def units_text() -> str:
    """What the engines call their units of work, separated by commas."""
    labels = dict.fromkeys(_(kind.unit_label) for engine in all_engines() for kind in engine.kinds.values())
    return capfirst(", ".join(labels))


def _values(facet: str) -> list[str]:
    rows = SearchFacet.objects.filter(name=facet).order_by("value")
    return list(rows.values_list("value", flat=True).distinct()[:MAX_VALUES])


# Django's ModelForm has type parameters in its stubs only.
class SavedSearchForm(forms.ModelForm):  # type: ignore[type-arg]
    """The name of a search, and the query of its address."""

    name = forms.CharField(
        max_length=100,
        error_messages=dict.fromkeys(
            ("required", "max_length"),
            gettext_lazy("A saved search needs a name of at most 100 characters."),
        ),
    )

    class Meta:
        model = SavedSearch
        fields = ("name", "query")


# Search: the texts and checkpoints of all locations, and saved searches.


# Searches that one person can save.
MAX_SAVED = 100


@requires(Right.VIEW)
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """Show the results of the address's search, or only those to htmx."""
    filters = filters_from(request.GET.dict())
    is_part = request.headers.get("HX-Target", "").endswith("search-results")
    if not is_part and "" in request.GET.values():
        # The address of a submitted form, without its empty fields.
        return redirect(f"{reverse('search')}?{filters.query}")
    context = _found(filters, number_in(request.GET.get("before", ""), max_digits=15))
    if is_part:
        response = render(request, "search/_results.html", context)
        response["HX-Replace-Url"] = f"{reverse('search')}?{filters.query}"
    else:
        response = _page(request, context)
    patch_vary_headers(response, ["HX-Request", "HX-Target"])
    return response


def _found(filters: Filters, position: int | None = None) -> dict[str, Any]:
    """The results of a search, for a template."""
    opens(Audited.SEARCH, "", filters.names)
    context = {"filters": filters, "results": Results(), "progress": progress()}
    try:
        return context | {"results": search(filters, position), "before": position}
    except SearchRefused as error:
        return context | {"too_slow": error.message}


def _page(
    request: HttpRequest, found: dict[str, Any], refused: SavedSearchForm | None = None
) -> HttpResponse:
    """The page, with the name of a saved search that was ``refused``, if any."""
    saved = SavedSearch.objects.filter(user=request.user.pk)
    context = {"form": SearchForm(found["filters"]), "saved": saved}
    if refused:
        context |= {"typed": refused["name"].value() or "", "save_error": errors_text(refused)}
    return render(request, "search/page.html", found | context, status=422 if refused else 200)


@requires(Right.VIEW)
@require_GET
def locations(request: HttpRequest) -> HttpResponse:
    """Return the paths of locations that have what was typed in their path."""
    typed = storable(request.GET.get("location", "")[:MAX_VALUE])
    found = Location.objects.filter(path__icontains=typed)
    paths = dict.fromkeys(offered_locations(found).values_list("path", flat=True))
    return render(request, "locations/adding/_paths.html", {"paths": paths})


@requires(Right.VIEW)
@require_POST
def save(request: HttpRequest) -> HttpResponse:
    """Save a search under a name that no other search of the user has."""
    form = SavedSearchForm(request.POST)
    filters = filters_from(dict(parse_qsl(request.POST.get("query", ""))))
    if form.is_valid():
        _check_name(form, SavedSearch.objects.filter(user=request.user.pk), filters.query)
    if not form.is_valid():
        return _page(request, _found(filters), form)
    name, user = form.cleaned_data["name"], get_object_or_404(User, pk=request.user.pk)
    SavedSearch.objects.update_or_create(user=user, name=name, defaults={"query": filters.query})
    messages.success(request, _("Saved the search “%(name)s”.") % {"name": name})
    return redirect(f"{reverse('search')}?{filters.query}")


def _check_name(form: SavedSearchForm, saved: QuerySet[SavedSearch], query: str) -> None:
    """Add an error if another search of the user has the name, or if there are too many."""
    name = form.cleaned_data["name"]
    if saved.filter(name=name).exclude(query=query).exists():
        text = _("You have another search “%(name)s”. Choose another name, or remove it first.")
        form.add_error("name", text % {"name": name})
    elif saved.count() >= MAX_SAVED and not saved.filter(name=name).exists():
        form.add_error("name", _("You have too many saved searches. Remove one first."))


@requires(Right.VIEW)
@require_POST
def remove(request: HttpRequest, pk: int) -> HttpResponse:
    """Remove a saved search of the user."""
    found = get_object_or_404(SavedSearch, pk=pk, user=request.user.pk)
    found.delete()
    messages.success(request, _("Removed the search “%(name)s”.") % {"name": found.name})
    return redirect("search")


# The command palette, and what it leads to: pages, saved searches, locations, runs, jobs and checkpoints.


# Characters of a query, commands of one group, and the shortest text that is compared with names and ids.
MAX_QUERY, MAX_COMMANDS, MIN_QUERY = 100, 6, 2
# Locations whose names are compared with a query.
MAX_SEARCHED_LOCATIONS = 500


@requires(Right.VIEW)
@require_GET
def palette(request: HttpRequest) -> HttpResponse:
    """Return the commands that the palette offers for a text."""
    groups = commands_for(request.GET.get("q", ""), request.user)
    return render(request, "palette/_commands.html", {"groups": groups})


@dataclass(frozen=True, slots=True)
class PaletteCommand:
    """A link. ``detail`` distinguishes it from links with the same label."""

    label: str
    address: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class CommandGroup:
    """Commands of one kind under a title."""

    title: str
    commands: tuple[PaletteCommand, ...]


def commands_for(query: str, user: User | AnonymousUser) -> list[CommandGroup]:
    """The groups with a command that this text finds, without empty ones."""
    text = " ".join(query[:MAX_QUERY].replace("\0", " ").encode("utf-8", "replace").decode().split())
    groups = [
        CommandGroup(_("Pages"), tuple(_page_commands(text, user))),
        CommandGroup(_("Saved searches"), tuple(_saved_commands(text, user.pk))),
        CommandGroup(_("Locations"), tuple(_location_commands(text, access_of(user)))),
    ]
    if len(text) >= MIN_QUERY:
        groups += [
            CommandGroup(_("Runs"), tuple(_run_commands(text))),
            CommandGroup(_("Jobs"), tuple(_job_commands(text))),
            CommandGroup(_("Checkpoints"), tuple(_checkpoint_commands(text))),
        ]
    if text:
        address = reverse("search", query={"q": text})
        found = PaletteCommand(_("Search all checkpoints for “%(text)s”") % {"text": text}, address)
        groups.append(CommandGroup(_("Search"), (found,)))
    return [group for group in groups if group.commands]


def _page_commands(text: str, user: User | AnonymousUser) -> Iterator[PaletteCommand]:
    detail = _("Theme, times, density, language, notifications")
    pages = [
        PaletteCommand(_("Home"), reverse("home")),
        PaletteCommand(_("Locations"), reverse("locations")),
        PaletteCommand(_("Jobs"), reverse("jobs")),
        PaletteCommand(_("Inbox"), reverse("inbox")),
        PaletteCommand(_("Search"), reverse("search")),
        PaletteCommand(_("Collections"), reverse("collections")),
        PaletteCommand(_("Settings"), reverse("settings"), detail),
    ]
    if may_everywhere(user, Right.VIEW):
        pages += [
            PaletteCommand(_("Stored data"), reverse("stored-data")),
            *([PaletteCommand(_("Hosts"), reverse("hosts"))] if Host.objects.count() > 1 else []),
        ]
    if may(user, Right.SHARE):
        pages.append(PaletteCommand(_("Share links"), reverse("shares")))
    if may_everywhere(user, Right.AUDIT):
        pages += [
            *([PaletteCommand(_("Audit trail"), reverse("audit"))] if settings.AUDIT else []),
            PaletteCommand(_("Add location"), reverse("locations") + "#add"),
            PaletteCommand(_("Daily limits"), reverse("jobs") + "?show=limits#day-limits"),
        ]
    yield from (page for page in pages if _has_words(f"{page.label} {page.detail}", text))


def _has_words(label: str, text: str) -> bool:
    """Whether a label has all words of a text, in any order and case."""
    return all(word in label.casefold() for word in text.casefold().split())


def _saved_commands(text: str, user: int | None) -> Iterator[PaletteCommand]:
    for saved in SavedSearch.objects.filter(user=user, name__icontains=text)[:MAX_COMMANDS]:
        yield PaletteCommand(saved.name, saved.get_absolute_url())


def _location_commands(text: str, access: Access) -> Iterator[PaletteCommand]:
    """The locations with these words and what can be done with them, those with the newest runs first."""
    locations, shown = Location.objects.all(), 0
    labels = " ".join(
        label % {"location": ""} for label in _location_labels(access.highest).values()
    ).casefold()
    for word in text.split():
        # SQLite compares only ASCII letters without case.
        if word.isascii() and word.casefold() not in labels:
            locations = locations.filter(path__icontains=word)
    most = MAX_SEARCHED_LOCATIONS if text else MAX_COMMANDS
    for location in by_newest_run(locations)[:most]:
        commands = _commands_of_location(location, access.level_at(location.pk))[: None if text else 2]
        found = [one for one in commands if _has_words(f"{one.label} {location.path}", text)]
        yield from found
        shown += bool(found)
        if shown == MAX_COMMANDS:
            return


def _location_labels(level: int) -> dict[str, str]:
    """What somebody with this level starts from a location, by the name of its page."""
    labels = {
        "new-run": (Right.RUN, _("New run in %(location)s")),
        "project": (Right.PROJECTS, _("Project of %(location)s")),
        "prune": (Right.PRUNE, _("Prune checkpoints of %(location)s")),
    }
    return {page: label for page, (right, label) in labels.items() if level >= right.level}


def _commands_of_location(location: Location, level: int) -> list[PaletteCommand]:
    """The location's page, and what is started from there."""
    name, labels = {"location": location.name}, _location_labels(level)
    return [
        PaletteCommand(location.name, location.get_absolute_url(), location.path),
        *(PaletteCommand(label % name, reverse(page, args=[location.uid])) for page, label in labels.items()),
    ]


def _run_commands(text: str) -> Iterator[PaletteCommand]:
    runs = Run.objects.top_level().filter(Q(name__icontains=text) | Q(key__startswith=text))
    for run in runs.select_related("location")[:MAX_COMMANDS]:
        at = moment_text(run.last_at, "minute") if run.last_at else ""
        yield PaletteCommand(str(run), run.get_absolute_url(), f"{run.location.name} {at}".strip())


def _job_commands(text: str) -> Iterator[PaletteCommand]:
    jobs = Job.objects.filter(branch__icontains=text) | Job.objects.begins_with(text)
    for job in jobs.order_by("-created_at")[:MAX_COMMANDS]:
        yield PaletteCommand(str(job), job.get_absolute_url(), str(job.get_status_display()))


def _checkpoint_commands(text: str) -> Iterator[PaletteCommand]:
    # A range of the index by location and id.
    locations = Location.objects.order_by().values("pk")
    rows = Checkpoint.objects.filter(location__in=locations, checkpoint_id__gte=text)
    rows = rows.filter(checkpoint_id__lt=f"{text}\U0010ffff").order_by("checkpoint_id")
    for row in rows.select_related("run")[:MAX_COMMANDS]:
        yield PaletteCommand(row.checkpoint_id, row.get_absolute_url(), f"{row.run} {row.branch}")

"""The form and pages of a search, and the command palette."""

from typing import Any
from urllib.parse import parse_qsl

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse, reverse_lazy
from django.utils.cache import patch_vary_headers
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy
from django.views.decorators.http import require_GET, require_POST

from viewer.engines import all_engines
from viewer.models import (
    Location,
    Right,
    SavedSearch,
    SearchEntry,
    SearchFacet,
    uuid_of,
)
from viewer.presentation.locations import MAX_OFFERED, offered
from viewer.presentation.palette import commands_for
from viewer.presentation.run.branches import trigger_label
from viewer.records.audit import Audited, opens
from viewer.records.permissions import requires
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
        known = list(Location.objects.values_list("uid", "path")[: MAX_OFFERED + 1])
        if len(known) <= MAX_OFFERED:
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
    paths = dict.fromkeys(offered(found).values_list("path", flat=True))
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


@requires(Right.VIEW)
@require_GET
def palette(request: HttpRequest) -> HttpResponse:
    """Return the commands that the palette offers for a text."""
    groups = commands_for(request.GET.get("q", ""), request.user)
    return render(request, "palette/_commands.html", {"groups": groups})

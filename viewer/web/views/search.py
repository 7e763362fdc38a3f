"""Search: the texts and checkpoints of all locations, and saved searches."""

from urllib.parse import parse_qsl

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from viewer.models import Location, SavedSearch
from viewer.presentation.palette import commands_for
from viewer.records.permissions import can_run, viewer_allowed
from viewer.records.search import Results, SearchRefused, progress, search
from viewer.records.search_filters import filters_from
from viewer.web.forms.search import SavedSearchForm, SearchForm
from viewer.web.login_links import number_in

# Searches that one person can save.
MAX_SAVED = 100


@viewer_allowed
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """Show the results of the address's search, or only those to htmx."""
    filters = filters_from(request.GET.dict())
    is_part = request.headers.get("HX-Target", "").endswith("search-results")
    if not is_part and "" in request.GET.values():
        # The address of a submitted form, without its empty fields.
        return redirect(f"{reverse('search')}?{filters.query}")
    position = number_in(request.GET.get("before", ""), max_digits=15)
    context = {"filters": filters, "results": Results(), "progress": progress()}
    try:
        context |= {"results": search(filters, Location.objects.all(), position), "before": position}
    except SearchRefused as error:
        context["too_slow"] = error.message
    if is_part:
        response = render(request, "search/_results.html", context)
        response["HX-Replace-Url"] = f"{reverse('search')}?{filters.query}"
    else:
        saved = SavedSearch.objects.filter(user=request.user.pk)
        context |= {"form": SearchForm(filters), "saved": saved}
        response = render(request, "search/page.html", context)
    patch_vary_headers(response, ["HX-Request", "HX-Target"])
    return response


@viewer_allowed
@require_POST
def save(request: HttpRequest) -> HttpResponse:
    """Save a search under a name that no other search of the user has."""
    form = SavedSearchForm(request.POST)
    saved = SavedSearch.objects.filter(user=request.user.pk)
    if not form.is_valid():
        messages.error(request, _("A saved search needs a name of at most 100 characters."))
        return redirect("search")
    name, query = form.cleaned_data["name"], filters_from(dict(parse_qsl(form.cleaned_data["query"]))).query
    if saved.filter(name=name).exclude(query=query).exists():
        text = _("You have another search “%(name)s”. Choose another name, or remove it first.")
        messages.error(request, text % {"name": name})
    elif saved.count() >= MAX_SAVED and not saved.filter(name=name).exists():
        messages.error(request, _("You have too many saved searches. Remove one first."))
    else:
        user = get_object_or_404(User, pk=request.user.pk)
        SavedSearch.objects.update_or_create(user=user, name=name, defaults={"query": query})
        messages.success(request, _("Saved the search “%(name)s”.") % {"name": name})
    return redirect(f"{reverse('search')}?{query}")


@viewer_allowed
@require_POST
def remove(request: HttpRequest, pk: int) -> HttpResponse:
    """Remove a saved search of the user."""
    found = get_object_or_404(SavedSearch, pk=pk, user=request.user.pk)
    found.delete()
    messages.success(request, _("Removed the search “%(name)s”.") % {"name": found.name})
    return redirect("search")


@viewer_allowed
@require_GET
def palette(request: HttpRequest) -> HttpResponse:
    """Return the commands that the palette offers for a text."""
    allowed = can_run(request.user)
    groups = commands_for(request.GET.get("q", ""), request.user.pk, can_run=allowed)
    return render(request, "palette/_commands.html", {"groups": groups})

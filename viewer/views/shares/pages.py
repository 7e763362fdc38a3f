"""The page of each kind of shared object, the same in the preview and through the link.

Anyone with the link can view it. It shows one object without links to anything else, and its address
selects only which part of that object is shown.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import patch_vary_headers

from viewer.access.addresses import number_in
from viewer.annotations import annotations_in
from viewer.comparison.sides import compared_checkpoints
from viewer.forms.search import SearchForm
from viewer.lineage.drawing import NoLayout
from viewer.models import Checkpoint, Location, Run, ShareLink
from viewer.presentation.jobs.job_view import shown_job
from viewer.presentation.listing import MAX_QUERY
from viewer.presentation.run.branches import branch_list
from viewer.presentation.run.visible.address import PARAMETERS, Collapsing
from viewer.presentation.run.visible.picking import Wanted
from viewer.presentation.run.window import window_of
from viewer.search import SearchRefused
from viewer.search.filters import Filters
from viewer.search.results import Results, search
from viewer.sharing import Shared
from viewer.sharing.paths import paths_of, without_paths
from viewer.sharing.picture import lineage_png
from viewer.views.compare import table_context
from viewer.views.runs import kept_query
from viewer.views.shares.detail import shared_detail

Kind = ShareLink.Kind
Page = tuple[str, dict[str, Any]]
# What a stranger may do, and where a page's parts are, relative to its own address.
STRANGER: dict[str, Any] = {"can_run": False, "can_share": False, "shared_rows": "rows/"}


def shared_page(request: HttpRequest, shared: Shared, more: Mapping[str, Any]) -> HttpResponse:
    """Return the page of an object, or to htmx the part of it that the request asks for."""
    # Nothing may depend on who has opened it: the preview shows what a stranger sees.
    request.user = AnonymousUser()
    template, context = PAGES[shared.subject.kind](request, shared)
    response = render(request, template, {"shared": shared, **context, **more, **STRANGER})
    patch_vary_headers(response, ["HX-Request", "HX-Target"])
    return _without_paths(response, shared)


def shared_rows(request: HttpRequest, shared: Shared) -> HttpResponse | None:
    """Return more rows of a shared run, or update those on the page; None for another kind."""
    if shared.subject.kind != Kind.RUN:
        return None
    request.user = AnonymousUser()
    context = _rows(request, shared, request.GET.get("at", ""))
    context |= {"is_part": True, "refreshes": "to" in request.GET, **STRANGER}
    return _without_paths(render(request, "runs/_rows.html", context), shared)


def shared_picture(shared: Shared) -> HttpResponse | None:
    """Return the picture of a shared run's lineage; None for another kind, or if it cannot be drawn."""
    if not shared.has_picture or shared.run is None:
        return None
    try:
        response = HttpResponse(lineage_png(shared.run), content_type="image/png")
    except NoLayout:
        return None
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _without_paths(response: HttpResponse, shared: Shared) -> HttpResponse:
    locations = Location.objects.select_related("project")
    if shared.locations:
        locations = locations.filter(pk__in=shared.locations)
    response.content = without_paths(response.content.decode(), paths_of(locations)).encode()
    return response


def _run_page(request: HttpRequest, shared: Shared) -> Page:
    assert shared.run
    if request.headers.get("HX-Target") == "run-branches":
        return "runs/_branches.html", _branches(request, shared.run)
    at = request.GET.get("at", "")
    rows = shared.run.checkpoints.select_related("location", "parent", "stored_copy").order_by("-row")
    checkpoint = (rows.filter(checkpoint_id=at) if at else rows).first()
    context = shared_detail(request, shared.run, checkpoint, compares=True)
    # Where a phone shows one of both, the newest output comes before the list.
    context |= {"is_open": bool(at) or "list" not in request.GET}
    if request.headers.get("HX-Target") == "detail":
        return "shared/_detail.html", context
    context |= _branches(request, shared.run) | {"annotation": annotations_in(shared.run).run}
    return "shared/run.html", context | _rows(request, shared, context["at"])


def _branches(request: HttpRequest, run: Run) -> dict[str, Any]:
    """Return the context of the branch picker, whose links lead to this page."""
    found = branch_list(run, request.GET.get("named", "").strip()[:MAX_QUERY])
    branch = request.GET.get("branch", "")
    finder = f"?{urlencode({'branch': branch})}"
    return {**found, "branch": branch, "branch_page": "", "branch_finder": finder}


def _rows(request: HttpRequest, shared: Shared, at: str) -> dict[str, Any]:
    """Return the context of the list of a run, which shows no jobs."""
    assert shared.run
    only = "failed" if request.GET.get("only") == "failed" else ""
    branch = request.GET.get("branch", "")
    pruned = request.GET.get("pruned") == "shown"
    top, bottom = (number_in(request.GET.get(name, "")) for name in ("from", "to"))
    collapsing = Collapsing.from_query(request.GET)
    wanted = Wanted(at, only, branch, top, bottom, pruned, collapsing=collapsing, without_jobs=True)
    context = {"run": shared.run, "at": at, "only": only, "branch": branch, "collapsing": collapsing}
    context |= {"keep": kept_query(request), "others": kept_query(request, PARAMETERS)}
    return context | {"window": window_of(shared.run, wanted)}


def _checkpoint_page(request: HttpRequest, shared: Shared) -> Page:
    assert shared.run and shared.checkpoint
    checkpoint: Checkpoint = shared.checkpoint
    context = shared_detail(request, shared.run, checkpoint, compares=False)
    if request.headers.get("HX-Target") == "detail":
        return "shared/_detail.html", context
    return "shared/checkpoint.html", context


def _comparison_page(request: HttpRequest, shared: Shared) -> Page:
    found = compared_checkpoints(shared.sides)
    shows_same = request.GET.get("show") == "all"
    heads = [{"side": side, "is_base": side is found.sides[0]} for side in found.sides]
    context: dict[str, Any] = {"compared": found, "shows_same": shows_same, "heads": heads}
    return "shared/comparison.html", context | table_context(request, found, heads)


def _search_page(request: HttpRequest, shared: Shared) -> Page:
    """Return the current results. Every user can view every location, and so can the maker of the link."""
    assert shared.filters
    position = number_in(request.GET.get("before", ""), max_digits=15)
    context: dict[str, Any] = {"results": Results(), "conditions": conditions_of(shared.filters)}
    try:
        context |= {"results": search(shared.filters, Location.objects.all(), position), "before": position}
    except SearchRefused as error:
        context["too_slow"] = error.message
    return "shared/search.html", context


def conditions_of(filters: Filters) -> list[tuple[str, str]]:
    """Return the label and value of each filter besides the words, without that of a location."""
    labels = {name: str(field.label) for name, field in SearchForm(filters).fields.items()}
    values = {name: value for name, value in asdict(filters).items() if name not in ("q", "location")}
    return [(labels.get(name, name), value) for name, value in values.items() if value]


def _job_page(request: HttpRequest, shared: Shared) -> Page:
    assert shared.job
    shown = shown_job(shared.job)
    context: dict[str, Any] = {"job": shared.job, "progress": shown.progress, "event_list": shown.event_list}
    return "shared/job.html", context


PAGES: dict[ShareLink.Kind, Callable[[HttpRequest, Shared], Page]] = {
    Kind.RUN: _run_page,
    Kind.CHECKPOINT: _checkpoint_page,
    Kind.COMPARISON: _comparison_page,
    Kind.SEARCH: _search_page,
    Kind.JOB: _job_page,
}

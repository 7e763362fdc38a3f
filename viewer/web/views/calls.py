"""The model calls that a checkpoint records: their list, the page of one, and the form that replays it."""

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from viewer.engines import engine_of
from viewer.engines.recorded_calls import RecordedCall
from viewer.host_requests import NotReadable
from viewer.models import Checkpoint, Job
from viewer.presentation.calls import (
    call_named,
    call_views,
    calls_in,
    readable_contents,
    recorded_calls_of,
)
from viewer.presentation.replays import replays_of
from viewer.records.permissions import viewer_allowed
from viewer.web.launch.page import StartingPoint
from viewer.web.launch.replay_page import ReplayPage, replay_page
from viewer.web.login_links import number_in
from viewer.web.views.checkpoints import editable_parts_of
from viewer.web.views.launches import (
    before_form,
    get_checkpoint,
    launch_response,
    retried_job,
    submission_of,
)

# Calls on one page of the list.
PAGE = 100


@viewer_allowed
@require_GET
def index(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the calls of a checkpoint, newest first, from the call number ``?before=`` on."""
    checkpoint = _checkpoint(pk)
    context = _context(checkpoint)
    try:
        calls = recorded_calls_of(checkpoint)
    except NotReadable as error:
        return render(request, "calls/list.html", {**context, "not_readable": error.message})
    end = min(number_in(request.GET.get("before", "")) or len(calls), len(calls))
    start = max(0, end - PAGE)
    context |= {"views": call_views(calls[start:end], checkpoint)[::-1], "older": start}
    return render(request, "calls/list.html", context)


@viewer_allowed
@require_GET
def show(request: HttpRequest, pk: int, call: str) -> HttpResponse:
    """Show one call of a checkpoint."""
    return _call_page(request, _checkpoint(pk), call)


def _call_page(request: HttpRequest, checkpoint: Checkpoint, call: str) -> HttpResponse:
    """The page of a call. It says so if the checkpoint cannot be read or lacks the call."""
    context = _context(checkpoint)
    try:
        contents = readable_contents(checkpoint)
    except NotReadable as error:
        return render(request, "calls/page.html", {**context, "not_readable": error.message})
    context["replays"] = replays_of(checkpoint, call)
    context["found"] = found = call_named(calls_in(contents), call, checkpoint)
    if found and found.view.call.part in editable_parts_of(request, checkpoint, contents):
        context["fork_query"] = _fork_query(found.view.call)
    return render(request, "calls/page.html", context)


@require_http_methods(["GET", "POST"])
def replay(request: HttpRequest, pk: int, call: str) -> HttpResponse:
    """The form that replays a call. Sending it starts the job, once."""
    checkpoint = get_checkpoint(pk)
    if response := before_form(request, checkpoint.location):
        return response
    page = _replay_page(request, checkpoint, call)
    if page is None:
        return _call_page(request, checkpoint, call)
    return launch_response(
        request, page, "calls/replay.html", lambda: _replay_context(page), Job.get_absolute_url
    )


@require_POST
def plan_replay(request: HttpRequest, pk: int, call: str) -> HttpResponse:
    """What the form would do. Nothing starts."""
    checkpoint = get_checkpoint(pk)
    page = _replay_page(request, checkpoint, call)
    if page is None:
        return _call_page(request, checkpoint, call)
    template = "_replay_plan.html" if request.headers.get("HX-Request") else "replay.html"
    return render(request, f"calls/{template}", _replay_context(page) | {"is_update": True})


def _replay_page(request: HttpRequest, checkpoint: Checkpoint, name: str) -> ReplayPage | None:
    """The page of a recorded call; None if the checkpoint cannot be read or lacks the call."""
    try:
        contents = readable_contents(checkpoint)
    except NotReadable:
        return None
    found = call_named(calls_in(contents), name, checkpoint)
    if found is None:
        return None
    point = StartingPoint(checkpoint, contents, checkpoint.location.project)
    retried = retried_job(
        request, checkpoint=checkpoint, kind=Job.Kind.REPLAY, request__replay__recorded=name
    )
    return replay_page(point, found.view, submission_of(request), retried)


def _replay_context(page: ReplayPage) -> dict[str, object]:
    checkpoint, name = page.request.checkpoint, page.request.call.name
    address = reverse("replay", args=[checkpoint.pk, name])
    return _context(checkpoint) | {
        "page": page,
        "call": page.request.call,
        "project": page.request.project,
        "address": address,
        "page_address": f"{address}?retry={page.retry.job.pk}" if page.retry else address,
        "plan_address": reverse("replay-plan", args=[checkpoint.pk, name]),
    }


def _fork_query(call: RecordedCall) -> str:
    """The query of the fork form that opens at the call's answer, or with it as the output of its unit."""
    query = {"edit": call.part}
    if call.result:
        query["call"] = call.name
    return urlencode(query)


def _checkpoint(pk: int) -> Checkpoint:
    rows = Checkpoint.objects.select_related("run__location", "location", "stored_copy")
    return get_object_or_404(rows, pk=pk)


def _context(checkpoint: Checkpoint) -> dict[str, object]:
    return {
        "checkpoint": checkpoint,
        "run": checkpoint.run,
        "location": checkpoint.location,
        "engine": engine_of(checkpoint.location),
    }

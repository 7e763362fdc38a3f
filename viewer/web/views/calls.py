"""The model calls that a checkpoint records: their list, and the page of one."""

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from viewer.engines import engine_of
from viewer.engines.recorded_calls import RecordedCall
from viewer.host_requests import NotReadable
from viewer.models import Checkpoint
from viewer.presentation.calls import (
    call_named,
    call_views,
    calls_in,
    readable_contents,
    recorded_calls_of,
)
from viewer.records.permissions import viewer_allowed
from viewer.web.login_links import number_in
from viewer.web.views.checkpoints import editable_parts_of

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
    """Show one call of a checkpoint. The page says so if the checkpoint cannot be read or lacks the call."""
    checkpoint = _checkpoint(pk)
    context = _context(checkpoint)
    try:
        contents = readable_contents(checkpoint)
    except NotReadable as error:
        return render(request, "calls/page.html", {**context, "not_readable": error.message})
    context["found"] = found = call_named(calls_in(contents), call, checkpoint)
    if found and found.view.call.part in editable_parts_of(request, checkpoint, contents):
        context["fork_query"] = _fork_query(found.view.call)
    return render(request, "calls/page.html", context)


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

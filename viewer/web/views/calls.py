"""The model calls that a checkpoint records: their list, the page of one, and the form that replays it."""

from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from viewer.engines import engine_of
from viewer.engines.recorded_calls import RecordedCall
from viewer.host_requests import NotReadable
from viewer.launching.replay import calls_of_branch, calls_of_collection
from viewer.launching.requests import matching_entry_point
from viewer.models import Checkpoint, Collection, Job, Right, Sweep
from viewer.presentation.jobs.pages import shown_job
from viewer.presentation.sweeps import (
    CallView,
    answers_of,
    call_named,
    call_views,
    recorded_call,
    recorded_calls_of,
    replays_of,
)
from viewer.records.audit import Audited, opens
from viewer.records.bodies import calls_in, readable_contents
from viewer.records.permissions import requires
from viewer.validation import number_in
from viewer.web.launch.prefilled import StartingPoint, editable_parts_of
from viewer.web.launch.replay_page import CallsReplayPage, ReplayPage, calls_replay_page, replay_page
from viewer.web.views.launches import (
    before_form,
    content_key,
    get_checkpoint,
    launch_response,
    retried_job,
    submission_of,
)

# Calls on one page of the list.
PAGE = 100


@requires(Right.VIEW)
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


@requires(Right.VIEW)
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
    context["found"] = found = call_named(calls_in(contents), call, checkpoint)
    if found:
        opens(Audited.CALL, f"{checkpoint.pk}/{found.view.call.name}")
        can_fork = found.view.call.part in editable_parts_of(request.user, checkpoint, contents)
        context["fork_query"] = _fork_query(found.view.call) if can_fork else ""
        context |= _replays_of(checkpoint, found.view, can_fork)
    return render(request, "calls/page.html", context)


def _replays_of(checkpoint: Checkpoint, view: CallView, can_fork: bool) -> dict[str, object]:
    """The replays of a call. The newest one has its answers, and until it has ended its bar."""
    replays = replays_of(checkpoint, view.call.name)
    if not replays:
        return {}
    newest = replays[0]
    context: dict[str, object] = {"replays": replays, "job": newest, "answers": answers_of(newest, view)}
    context["can_fork"] = can_fork
    return context if newest.has_ended else context | {"shown": shown_job(newest)}


def answers_context(request: HttpRequest, job: Job) -> dict[str, object]:
    """The answers of a replay, and whether a fork can use them; empty for another job."""
    if job.kind != Job.Kind.REPLAY:
        return {}
    read = recorded_call(job)
    if read is None or job.checkpoint is None:
        return {"answers": answers_of(job, None)}
    contents, view = read
    parts = editable_parts_of(request.user, job.checkpoint, contents)
    return {"answers": answers_of(job, view), "can_fork": view.call.part in parts}


@requires(Right.VIEW)
@require_GET
def answers(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The answers of a replay, for an open page when there are new ones. Nothing for another job."""
    related = ("checkpoint__location__project", "checkpoint__run", "project", "location")
    job = get_object_or_404(Job.objects.select_related(*related), pk=pk)
    context = answers_context(request, job)
    if not context:
        return HttpResponse(status=204)
    return render(request, "calls/_answers.html", {"job": job, **context})


@requires(Right.RUN)
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
        request, page, "calls/replays/form.html", lambda: _replay_context(page), Job.get_absolute_url
    )


@requires(Right.RUN)
@require_POST
def plan_replay(request: HttpRequest, pk: int, call: str) -> HttpResponse:
    """What the form would do. Nothing starts."""
    checkpoint = get_checkpoint(pk)
    page = _replay_page(request, checkpoint, call)
    if page is None:
        return _call_page(request, checkpoint, call)
    template = "_plan.html" if request.headers.get("HX-Request") else "form.html"
    return render(request, f"calls/replays/{template}", _replay_context(page) | {"is_update": True})


@requires(Right.RUN)
@require_http_methods(["GET", "POST"])
def replay_all(request: HttpRequest, pk: int) -> HttpResponse:
    """The form that replays all calls of a branch. Sending it starts a job for each, once."""
    checkpoint = get_checkpoint(pk)
    if response := before_form(request, checkpoint.location):
        return response
    page = _branch_page(request, checkpoint)
    return _calls_response(request, page) if page else redirect("checkpoint-calls", pk)


@requires(Right.RUN)
@require_POST
def plan_replay_all(request: HttpRequest, pk: int) -> HttpResponse:
    """What the form would do. Nothing starts."""
    page = _branch_page(request, get_checkpoint(pk))
    return _calls_plan(request, page) if page else redirect("checkpoint-calls", pk)


@requires(Right.RUN)
@require_http_methods(["GET", "POST"])
def replay_collection(request: HttpRequest, pk: int) -> HttpResponse:
    """The form that replays the calls of a collection. Sending it starts a job for each, once."""
    return _calls_response(request, _collection_page(request, pk))


@requires(Right.RUN)
@require_POST
def plan_replay_collection(request: HttpRequest, pk: int) -> HttpResponse:
    """What the form would do. Nothing starts."""
    return _calls_plan(request, _collection_page(request, pk))


def _branch_page(request: HttpRequest, checkpoint: Checkpoint) -> CallsReplayPage | None:
    """The page; None if the checkpoint cannot be read."""
    try:
        contents = readable_contents(checkpoint)
    except NotReadable:
        return None
    project = checkpoint.location.project
    entry_point = matching_entry_point(contents, project)
    calls = calls_of_branch(checkpoint, calls_in(contents), project, entry_point)
    return calls_replay_page(calls, submission_of(request), content_key(request))


def _collection_page(request: HttpRequest, pk: int) -> CallsReplayPage:
    calls = calls_of_collection(get_object_or_404(Collection, pk=pk))
    return calls_replay_page(calls, submission_of(request), content_key(request))


def _calls_response(request: HttpRequest, page: CallsReplayPage) -> HttpResponse:
    template = "calls/replays/all_calls.html"
    return launch_response(request, page, template, lambda: _calls_context(page), Sweep.get_absolute_url)


def _calls_plan(request: HttpRequest, page: CallsReplayPage) -> HttpResponse:
    template = "_all_calls_plan.html" if request.headers.get("HX-Request") else "all_calls.html"
    return render(request, f"calls/replays/{template}", _calls_context(page) | {"is_update": True})


def _calls_context(page: CallsReplayPage) -> dict[str, object]:
    checkpoint, collection = page.request.checkpoint, page.request.collection
    if checkpoint:
        name, before, arguments = "replay-all", "checkpoint-calls", [checkpoint.pk]
    else:
        name, before, arguments = "collection-replay", "collection", [collection.pk if collection else 0]
    address = reverse(name, args=arguments)
    return (_context(checkpoint) if checkpoint else {"collection": collection}) | {
        "page": page,
        "project": page.request.project,
        "address": address,
        "page_address": address,
        "plan_address": reverse(f"{name}-plan", args=arguments),
        "cancel_address": reverse(before, args=arguments),
    }


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

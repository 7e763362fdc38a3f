"""The pages of a run: its checkpoints and lineage, and its timeline."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET

from viewer.engines import engine_of
from viewer.engines.protocol import kind_of
from viewer.engines.recorded_calls import call_name
from viewer.formats import count_text
from viewer.host_requests import ImportRun, ask
from viewer.messages.translation import translate
from viewer.models import Job, Right, Run, Sweep
from viewer.presentation import spans
from viewer.presentation.export import ALL_FORMATS
from viewer.presentation.listing import MAX_QUERY
from viewer.presentation.run.branches import branch_list
from viewer.presentation.run.graph import WantedGraph, graph_of
from viewer.presentation.run.window import (
    PARAMETERS,
    Collapsing,
    Wanted,
    copy_texts,
    jump_target,
    listing_texts,
    offered_jumps,
    window_of,
)
from viewer.records.annotations import annotations_in, comments_in
from viewer.records.audit import Audited, opens
from viewer.records.lineage.graphs import NoLayout
from viewer.records.lineage.tree import FaultCode
from viewer.records.permissions import requires
from viewer.validation import number_in
from viewer.web.views.checkpoints import detail_context, selected_checkpoint

# A run: its lineage as lanes and a list, and the selected checkpoint.


FILTERS = ("failed", "starred")
# Maximum number of checkpoints whose folded forks an address opens.
MAX_OPENED = 20


@requires(Right.VIEW)
@require_GET
def show(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Show the page, or return only the checkpoint's detail to htmx."""
    # A page without a selection shows the newest rows.
    run = _imported(uid, newest_first=not request.GET)
    checkpoint = selected_checkpoint(run, request.GET.get("at", ""), request.GET.get("branch", ""))
    if checkpoint and "at" in request.GET:
        opens(Audited.CHECKPOINT, checkpoint.pk)
    context = detail_context(request, run, checkpoint)
    if request.headers.get("HX-Target") == "detail":
        response = render(request, "checkpoints/_detail.html", context)
    else:
        context |= _lineage_context(request, run, context["at"])
        context["jumps"] = offered_jumps(run, context["branch"], checkpoint)
        response = render(request, "runs/page.html", context)
    patch_vary_headers(response, ["HX-Request", "HX-Target"])
    return response


@requires(Right.VIEW)
@require_GET
def rows(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Return more rows of the list, or update the rows on the page."""
    run = _imported(uid)
    context = _lineage_context(request, run, request.GET.get("at", "")) | {"run": run}
    context |= {"is_part": True, "refreshes": "to" in request.GET}
    return render(request, "runs/_rows.html", context)


@requires(Right.VIEW)
@require_GET
def branches(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Return the list of the branch picker with the branches whose names contain ``?named=``.

    They lead to the run's page, or with ``?of=timeline`` to its timeline.
    """
    run = get_object_or_404(Run, uid=uid)
    at = request.GET.get("at", "")
    context = {"run": run, "at": at, "branch": request.GET.get("branch", "")}
    context |= branch_list(run, request.GET.get("named", "").strip()[:MAX_QUERY])
    if request.GET.get("of") == "timeline":
        return render(request, "runs/_branches.html", context | timeline_branches(run))
    context |= _branch_links(run, request)
    context |= {"collapsing": Collapsing.from_query(request.GET)}
    context["others"] = kept_query(request, (*PARAMETERS, "named"))
    return render(request, "runs/_branches.html", context)


def _branch_links(run: Run, request: HttpRequest) -> dict[str, Any]:
    """Return where the branch picker of the run's page finds branches, and what its links open."""
    finder = reverse("run-branches", args=[run.uid], query=request.GET)
    is_graph = request.GET.get("view") == "graph"
    return {
        "branch_page": run.get_absolute_url(),
        "branch_query": "&view=graph" if is_graph else "",
        "branch_finder": finder,
        "toggles_branches": not is_graph,
    }


@requires(Right.VIEW)
@require_GET
def jump(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Redirect to a checkpoint of a branch or run, such as its head, if it has one."""
    run = _imported(uid)
    branch = request.GET.get("of") or request.GET.get("branch", "")
    found = jump_target(run, request.GET.get("to", ""), branch)
    if found is None:
        messages.info(request, _("There is no such checkpoint."))
    # What is collapsed stays so, apart from the selected checkpoint.
    kept = request.GET.copy()
    for name in ("to", "of", "at", "from"):
        kept.pop(name, None)
    if found:
        kept["at"] = found.checkpoint_id
    return redirect(reverse("run", args=[run.uid], query=kept))


def _imported(uid: UUID, *, newest_first: bool = False) -> Run:
    """Return the run, with its checkpoints up to date if its location is only indexed. Raises Http404.

    With ``newest_first``, it may be partly listed.
    """
    runs = Run.objects.select_related("location__project", "parent")
    run = get_object_or_404(runs, uid=uid)
    summary = ask(ImportRun(run.pk, newest_first=newest_first))
    if summary.is_news:
        run = get_object_or_404(runs, uid=uid)
    # Shown on this page only.
    run.location.read_error = summary.read_error or run.location.read_error
    return run


def _lineage_context(request: HttpRequest, run: Run, at: str) -> dict[str, Any]:
    """Return the context of the list or the picture of the lineage, with the checkpoint ``at`` selected."""
    only = request.GET.get("only", "")
    only = only if only in FILTERS else ""
    branch = request.GET.get("branch", "")
    context: dict[str, Any] = {"only": only, "branch": branch, "at": at, "view": "rows"}
    context |= {"faults": [*listing_texts(run), *copy_texts(run), *_fault_texts(run)]}
    if run.is_partly_listed:
        # The next request lists the other checkpoints, unless the worker already has.
        context["listing_trigger"] = ", load delay:2s" if "to" in request.GET else ", load"
    context["keep"] = kept_query(request)
    context["others"] = kept_query(request, PARAMETERS)
    context["collapsing"] = collapsing = Collapsing.from_query(request.GET)
    context["mutes"] = mutes = request.GET.get("muted") == "others"
    context |= _run_head(run) | {"export_formats": ALL_FORMATS} | _branch_links(run, request)
    if request.GET.get("view") == "graph":
        try:
            opened = _opened(request)
            graph = graph_of(run, WantedGraph(at, only, branch, opened))
            return context | {"view": "graph", "graph": graph, "opened": opened}
        except NoLayout as error:
            context["no_layout"] = translate(error)
    top, bottom = (number_in(request.GET.get(name, "")) for name in ("from", "to"))
    pruned = request.GET.get("pruned") == "shown"
    attempts = request.GET.get("attempts") == "shown"
    wanted = Wanted(at, only, branch, top, bottom, pruned, attempts, collapsing, mutes)
    return context | {"window": window_of(run, wanted), "pruned_shown": pruned}


def _opened(request: HttpRequest) -> dict[str, int]:
    """Return how many folded forks of which checkpoints the address opens: counts and ids with colons."""
    pairs = (value.partition(":") for value in request.GET.getlist("opened")[:MAX_OPENED])
    found = ((number_in(count), key) for count, _colon, key in pairs)
    return {key: count for count, key in found if count}


def kept_query(request: HttpRequest, besides: Sequence[str] = ()) -> str:
    """Return the parameters that a row's link keeps, apart from the selection and those ``besides``."""
    kept = request.GET.copy()
    for name in ("at", "from", "to", *besides):
        kept.pop(name, None)
    if kept.get("only") not in FILTERS:
        kept.pop("only", None)
    return f"&{kept.urlencode()}" if kept else ""


# What the head of a run shows above its list, its lineage and its timeline alike.


# Maximum number of the newest sweeps that are named.
MAX_SWEEPS = 5


def _run_head(run: Run) -> dict[str, Any]:
    """Return the context of the head of a run: its annotation, sweeps, branches, and what its menu offers."""
    kind = kind_of(engine_of(run.location), run.entity)
    return {
        "annotation": annotations_in(run).run,
        # Called if several people use this server.
        "open_discussions": lambda: comments_in(run).open_discussions().count(),
        "groups": Sweep.objects.filter(checkpoint__run=run)[:MAX_SWEEPS],
        # A called run starts only within its caller.
        "can_run_again": kind.starts_new_runs and run.parent_id is None,
        **branch_list(run),
    }


# Sentences about the lineage problems of a run.
_FAULT_LABELS: dict[FaultCode, str | Promise] = {
    FaultCode.SELF_PARENT: gettext_lazy(
        "A checkpoint names itself as its parent: %(ids)s. It is shown without a parent."
    ),
    FaultCode.CYCLE: gettext_lazy(
        "The parents of these checkpoints form a cycle: %(ids)s. The earliest one is shown without a parent."
    ),
    FaultCode.DUPLICATE_ID: gettext_lazy("Several checkpoints have the same id: %(ids)s. Each is shown."),
}


def _fault_texts(run: Run) -> list[str]:
    """Return a sentence for each problem."""
    return [
        str(_FAULT_LABELS[FaultCode(fault["code"])]) % {"ids": _named_ids(fault["ids"], fault["count"])}
        for fault in run.lineage_faults
    ]


def _named_ids(ids: list[str], count: int) -> str:
    named, more = ", ".join(ids), count - len(ids)
    return _("%(ids)s and %(count)s more") % {"ids": named, "count": count_text(more)} if more > 0 else named


# The timeline of a run or a job.


@requires(Right.VIEW)
@require_GET
def timeline_of_run(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Show the timeline of a branch of a run."""
    run = get_object_or_404(Run.objects.select_related("location__project", "parent"), uid=uid)
    ask(ImportRun(run.pk))
    found = spans.branch_spans(run, request.GET.get("branch", ""))
    view = spans.timeline_of(found.spans, request.GET.get("span", ""), _timeline_window(request))
    context = {"run": run, "location": run.location, "timeline": view, "found": found}
    context |= {"branch": found.branch, **_fork(run, found, view)}
    if view.selected and (recording := found.checkpoint_of_call(view.selected)):
        name = call_name(view.selected.call_id)
        context["call_page"] = reverse("checkpoint-call", args=[recording.pk, name])
    if not found.spans:
        context |= {"why_empty": spans.why_branch_is_empty(found.checkpoints)}
        context |= {"failed_job": spans.failed_job(run, found.branch)}
    context |= {"view": "timeline", "at": request.GET.get("at", "")}
    context |= _run_head(run) | {"export_formats": ALL_FORMATS} | timeline_branches(run, found.branch)
    return render(request, "timeline/run.html", context)


def timeline_branches(run: Run, branch: str = "") -> dict[str, Any]:
    """Return where the branch picker of a timeline finds branches, and what its links open."""
    query = {"of": "timeline", "branch": branch}
    return {
        "branch_page": reverse("run-timeline", args=[run.uid]),
        "branch_finder": reverse("run-branches", args=[run.uid], query=query),
        "branches_label": _("Show the timeline of one branch"),
    }


@requires(Right.VIEW)
@require_GET
def timeline_of_job(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show the timeline of a job."""
    job = get_object_or_404(Job.objects.select_related("location", "run"), pk=pk)
    view = spans.timeline_of(spans.job_spans(job), request.GET.get("span", ""), _timeline_window(request))
    context = {
        "job": job,
        "location": job.location,
        "timeline": view,
        "why_empty": spans.why_job_is_empty(job),
    }
    return render(request, "timeline/job.html", context)


def _timeline_window(request: HttpRequest) -> tuple[float, float]:
    return spans.window_in(request.GET.get("from", ""), request.GET.get("to", ""))


def _fork(run: Run, found: spans.BranchSpans, view: spans.TimelineView) -> dict[str, Any]:
    """The checkpoint before the unit of the selected span, from which that unit can be forked."""
    unit = view.track.unit if view.track else None
    before = found.checkpoint_before(unit) if unit else None
    if before is None:
        return {}
    kind = kind_of(engine_of(run.location), before.entity)
    # A called run continues only within its caller.
    is_runnable = kind.is_runnable and run.parent_id is None
    return {"before": before, "unit_label": kind.unit_label, "is_runnable": is_runnable}

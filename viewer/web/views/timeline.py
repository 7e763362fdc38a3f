"""The timeline of a run or a job."""

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_GET

from viewer.engines import engine_of
from viewer.engines.protocol import kind_of
from viewer.host_requests import ImportRun, ask
from viewer.models import Job, Run
from viewer.presentation.export import FORMATS
from viewer.presentation.run.head import run_head
from viewer.presentation.spans import BranchSpans, branch_spans, job_spans
from viewer.presentation.timeline import (
    TimelineView,
    failed_job,
    timeline_of,
    why_branch_is_empty,
    why_job_is_empty,
    window_in,
)
from viewer.records.permissions import viewer_allowed


@viewer_allowed
@require_GET
def of_run(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Show the timeline of a branch of a run."""
    run = get_object_or_404(Run.objects.select_related("location__project", "parent"), uid=uid)
    ask(ImportRun(run.pk))
    found = branch_spans(run, request.GET.get("branch", ""))
    view = timeline_of(found.spans, request.GET.get("span", ""), _window(request))
    context = {"run": run, "location": run.location, "timeline": view, "found": found}
    context |= {"branch": found.branch, **_fork(run, found, view)}
    if not found.spans:
        context |= {"why_empty": why_branch_is_empty(found.checkpoints)}
        context |= {"failed_job": failed_job(run, found.branch)}
    context |= {"view": "timeline", "at": request.GET.get("at", "")}
    context |= run_head(run) | {"export_formats": FORMATS} | timeline_branches(run, found.branch)
    return render(request, "timeline/run.html", context)


def timeline_branches(run: Run, branch: str = "") -> dict[str, Any]:
    """Return where the branch picker of a timeline finds branches, and what its links open."""
    query = {"of": "timeline", "branch": branch}
    return {
        "branch_page": reverse("run-timeline", args=[run.uid]),
        "branch_finder": reverse("run-branches", args=[run.uid], query=query),
        "branches_label": gettext("Show the timeline of one branch"),
    }


@viewer_allowed
@require_GET
def of_job(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show the timeline of a job."""
    job = get_object_or_404(Job.objects.select_related("location", "run"), pk=pk)
    view = timeline_of(job_spans(job), request.GET.get("span", ""), _window(request))
    context = {"job": job, "location": job.location, "timeline": view, "why_empty": why_job_is_empty(job)}
    return render(request, "timeline/job.html", context)


def _window(request: HttpRequest) -> tuple[float, float]:
    return window_in(request.GET.get("from", ""), request.GET.get("to", ""))


def _fork(run: Run, found: BranchSpans, view: TimelineView) -> dict[str, Any]:
    """The checkpoint before the unit of the selected span, from which that unit can be forked."""
    unit = view.track.unit if view.track else None
    before = found.checkpoint_before(unit) if unit else None
    if before is None:
        return {}
    kind = kind_of(engine_of(run.location), before.entity)
    # A called run continues only within its caller.
    is_runnable = kind.is_runnable and run.parent_id is None
    return {"before": before, "unit_label": kind.unit_label, "is_runnable": is_runnable}

"""The page on which a sweep is started, and the page of its forks."""

from typing import Any
from uuid import UUID, uuid5

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from viewer.models import Checkpoint, Job, Sweep
from viewer.presentation.jobs.status import amount
from viewer.presentation.listing import headings, known_sort
from viewer.presentation.reproduction import command_of, reproduction_of
from viewer.presentation.sweeps import COLUMNS, compared, held_back, in_order, winners
from viewer.records.limits import limits_in
from viewer.records.permissions import viewer_allowed
from viewer.web.launch.sweep_page import SweepPage, sweep_page
from viewer.web.views.forks import before_form, context_of, get_checkpoint, launch_response, submission_of

# Fields that do not make the content of two forms differ.
IGNORED = {"csrfmiddlewaretoken", "shown"}

# After how many seconds a page refreshes: while a branch runs, and while all wait for a limit or a person.
RUNNING_SECONDS, HELD_SECONDS = 2, 8


@require_http_methods(["GET", "POST"])
def new(request: HttpRequest, pk: int) -> HttpResponse:
    """The form of a sweep. Sending it starts all forks, once."""
    checkpoint = get_checkpoint(pk)
    if response := before_form(request, checkpoint.location):
        return response
    page = _page(request, checkpoint)
    return launch_response(request, page, "sweeps/form.html", lambda: _context(page), Sweep.get_absolute_url)


@require_POST
def plan(request: HttpRequest, pk: int) -> HttpResponse:
    """The variations of the form, with their plans. Nothing starts."""
    page = _page(request, get_checkpoint(pk))
    template = "_plan.html" if request.headers.get("HX-Request") else "form.html"
    return render(request, f"sweeps/{template}", _context(page) | {"is_update": True})


@viewer_allowed
@require_GET
def show(request: HttpRequest, uid: UUID) -> HttpResponse:
    """The forks of a sweep, with their outcomes, next to each other."""
    group = get_object_or_404(Sweep.objects.select_related("checkpoint__run", "requested_by"), pk=uid)
    branches = compared(group, request.GET.get("against", ""))
    wait = held_back(branches)
    is_under_way = wait is None and not all(one.has_ended for one in branches)
    refresh_seconds = HELD_SECONDS if wait else RUNNING_SECONDS if is_under_way else 0
    sort = known_sort(request.GET.get("sort", ""), COLUMNS, "-score" if group.score else "")
    template = "_branches.html" if request.headers.get("HX-Request") else "page.html"
    limits = [amount(one.measure, one.max_amount) for one in limits_in("sweep", group.limits)]
    context = {"group": group, "branches": in_order(branches, sort), "is_under_way": is_under_way}
    context |= {
        "refresh_seconds": refresh_seconds,
        "wait": wait,
        "limits": limits,
        "winners": winners(branches),
    }
    context["scores"] = {"headings": headings(COLUMNS, sort, request.GET)}
    if template == "page.html":
        context["commands"] = _commands([one.job for one in branches])
    return render(request, f"sweeps/{template}", context)


def _commands(jobs: list[Job]) -> str:
    """The command of each job that can be repeated, one a line."""
    return "\n".join(command_of(job, what) for job in jobs if (what := reproduction_of(job)))


def _page(request: HttpRequest, checkpoint: Checkpoint) -> SweepPage:
    """The page. The same content sent twice starts once; changed content is another sweep."""
    submission = submission_of(request)
    content = sorted((name, texts) for name, texts in request.POST.lists() if name not in IGNORED)
    return sweep_page(checkpoint, submission, uuid5(submission.key, repr(content)))


def _context(page: SweepPage) -> dict[str, Any]:
    address, pk = reverse("new-sweep", args=[page.checkpoint.pk]), page.checkpoint.pk
    plan_address = reverse("new-sweep-plan", args=[pk])
    return context_of(page) | {"address": address, "page_address": address, "plan_address": plan_address}

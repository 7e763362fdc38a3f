"""One checkpoint: the detail beside the list, and its stored copy as a download."""

import re
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.functional import Promise
from django.utils.http import content_disposition_header
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_GET

from viewer.access.addresses import number_in
from viewer.access.permissions import viewer_allowed
from viewer.engines.crewai.contents import Contents, contents_of
from viewer.engines.crewai.contents.changes import Change, changes_since
from viewer.engines.crewai.contents.events import Event
from viewer.importing import stored_body, stored_bytes
from viewer.models import Checkpoint, Run
from viewer.presentation.run.colors import branch_colours
from viewer.presentation.run.origin import origin_of

TABS: dict[str, str | Promise] = {
    "overview": _("Overview"),
    "tasks": _("Tasks"),
    "inputs": _("Inputs"),
    "state": _("State"),
    "events": _("Events"),
    "raw": _("Raw"),
}
EVENTS_A_PAGE = 100
# So many characters of outputs are read as Markdown on one page.
MOST_MARKDOWN = 200_000


@viewer_allowed
@require_GET
def show(request: HttpRequest, pk: int) -> HttpResponse:
    """To the checkpoint's place in its run."""
    return redirect(get_object_or_404(Checkpoint.objects.select_related("run"), pk=pk))


@viewer_allowed
@require_GET
def raw(request: HttpRequest, pk: int) -> HttpResponse:
    """The stored copy, redacted, to be saved and never shown by the browser."""
    checkpoint = get_object_or_404(Checkpoint.objects.select_related("location", "body"), pk=pk)
    response = HttpResponse(stored_bytes(checkpoint), content_type="application/json")
    name = re.sub(r"[^\w.-]+", "_", checkpoint.checkpoint_id).strip("._") or "checkpoint"
    response["Content-Disposition"] = content_disposition_header(True, f"{name}.json")
    response["X-Content-Type-Options"] = "nosniff"
    return response


def selected_checkpoint(run: Run, at: str, branch: str = "") -> Checkpoint | None:
    """The checkpoint that the address names; without a name, the newest of the branch, or of all.

    None where it is not there.
    """
    rows = run.checkpoints.select_related("location", "parent", "body").order_by("-row")
    if at:
        return rows.filter(checkpoint_id=at).first()
    return (rows.filter(branch=branch).first() if branch else None) or rows.first()


def detail_context(request: HttpRequest, run: Run, checkpoint: Checkpoint | None) -> dict[str, Any]:
    """What the detail shows of a checkpoint, under the tab that the address names."""
    asked = request.GET.get("tab", "")
    context: dict[str, Any] = {
        "run": run,
        "location": run.location,
        "checkpoint": checkpoint,
        "at": checkpoint.checkpoint_id if checkpoint else "",
        "tab": asked if asked in TABS else "overview",
        "tabs": TABS,
        "is_open": bool(request.GET.get("at")),
        "reads_markdown": request.GET.get("as") == "markdown",
    }
    if checkpoint is None:
        return context
    body = stored_body(checkpoint)
    contents = contents_of(body)
    # Together they must not keep the page waiting.
    outputs = [task.output for task in contents.tasks] + [method.output for method in contents.methods]
    context["reads_markdown"] &= sum(len(str(output)) for output in outputs) <= MOST_MARKDOWN
    context |= {"contents": contents, "is_too_deep": not body, "colours": branch_colours(run)}
    if context["tab"] == "overview":
        context["children"] = checkpoint.children.order_by("row")[:20]
    if context["tab"] == "tasks":
        changes = _changes(checkpoint, contents)
        context["tasks"] = [(task, changes.get(task.id)) for task in contents.tasks]
    if context["tab"] == "events":
        context |= _events(request, contents.events)
    return context


def _changes(checkpoint: Checkpoint, contents: Contents) -> dict[str, Change]:
    """What became of each task since its branch left another; empty for a branch that left none."""
    origin = origin_of(checkpoint)
    return changes_since(contents_of(stored_body(origin)), contents) if origin else {}


def _events(request: HttpRequest, events: tuple[Event, ...]) -> dict[str, Any]:
    """One page of the timeline, without the engine's own steps unless they are asked for."""
    told = [event for event in events if not event.is_internal]
    shows_internal = request.GET.get("internal") == "1"
    shown = list(events) if shows_internal else told
    first = number_in(request.GET.get("event", "")) or 0
    return {
        "events": shown[first : first + EVENTS_A_PAGE],
        "began_at": events[0].at if events else None,
        "earlier": max(first - EVENTS_A_PAGE, 0) if first else None,
        "later": first + EVENTS_A_PAGE if first + EVENTS_A_PAGE < len(shown) else None,
        "internal_count": len(events) - len(told),
        "shows_internal": shows_internal,
        "event_total": len(shown),
    }

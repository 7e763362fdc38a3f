"""The history of one output or value of the state, as a part of the checkpoint's page."""

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET

from viewer.access.addresses import number_in
from viewer.access.permissions import viewer_allowed
from viewer.comparison.history import history_of
from viewer.models import Checkpoint
from viewer.presentation.run.colors import branch_colours


@viewer_allowed
@require_GET
def show(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the changes of ``?part=`` to htmx, from the ancestor ``?older=`` on; redirect anybody else."""
    checkpoint = get_object_or_404(Checkpoint.objects.select_related("run__location"), pk=pk)
    if not request.headers.get("HX-Request"):
        query = {**request.GET.dict(), "at": checkpoint.checkpoint_id}
        query.pop("older", None)
        return redirect(f"{checkpoint.run.get_absolute_url()}?{urlencode(query)}")
    start = number_in(request.GET.get("older", ""))
    first = get_object_or_404(checkpoint.run.checkpoints, pk=start) if start else checkpoint
    found = history_of(first, request.GET.get("part", ""))
    context = {"checkpoint": checkpoint, "run": checkpoint.run, "history": found, "first": first}
    context |= {"colours": branch_colours(checkpoint.run), "part": request.GET.get("part", "")}
    return render(request, "history/_changes.html", context)

"""Hosts: their heartbeats, load, jobs and versions, and draining one before maintenance."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from viewer.models import Host
from viewer.presentation.hosts import in_use_text, shown_hosts
from viewer.records.permissions import viewer_allowed


@viewer_allowed
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """Show all hosts, or return only the table to a page that refreshes."""
    part = request.headers.get("HX-Target") == "hosts"
    return render(request, f"hosts/{'_list' if part else 'page'}.html", {"hosts": shown_hosts()})


@require_POST
def drain(request: HttpRequest, pk: int) -> HttpResponse:
    """Have a host take no new jobs, or take jobs again."""
    host = get_object_or_404(Host, pk=pk)
    host.change_drained(is_drained=request.POST.get("drained") == "yes")
    if host.is_drained:
        text = _("%(host)s takes no new jobs. Those that run continue; others wait.")
    else:
        text = _("%(host)s takes jobs.")
    messages.success(request, text % {"host": host.name})
    return redirect("hosts")


@require_POST
def remove(request: HttpRequest, pk: int) -> HttpResponse:
    """Remove a host that is away and has nothing."""
    host = get_object_or_404(Host, pk=pk)
    if host.remove_if_unused():
        messages.success(request, _("Removed %(path)s.") % {"path": host.name})
    else:
        messages.error(request, in_use_text(host))
    return redirect("hosts")

"""The home page, and pages about the server: hosts, health, metrics, the notice and stored data."""

import logging
from pathlib import Path

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.core.paginator import Paginator
from django.db import DatabaseError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST, require_safe
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from viewer.data_folder.permissions import problem_while_served
from viewer.host_requests import ListDrafts, PrepareImport, ReadSizes, ask
from viewer.models import Host, Location, Right, Run
from viewer.presentation.hosts import hosts_if_several, in_use_text, shown_hosts
from viewer.presentation.listing import locations_at_home
from viewer.presentation.run_list import attention, run_list
from viewer.presentation.trends import overview
from viewer.records.hosts import chosen_host, drain, remove_unused
from viewer.records.locations import drafts_of
from viewer.records.permissions import requires
from viewer.web.live.feeds import home_state
from viewer.web.metrics import registry
from viewer.web.views.locations import adding_context

# The home page: what needs a person, what runs, what failed, and every run.


@requires(Right.VIEW)
@require_GET
def home(request: HttpRequest) -> HttpResponse:
    """Show the page, or return only its contents to a page that refreshes."""
    ask(PrepareImport())
    locations = locations_at_home()
    context = {
        "attention": attention(),
        "overview": overview(),
        "locations": locations,
        "runs": run_list(Run.objects.top_level(), request.GET, shows_location=True),
        "state": home_state(),
    }
    if not locations.count:
        context |= adding_context(request)
    part = request.headers.get("HX-Target") == "home-contents"
    return render(request, f"home/{'_contents' if part else 'page'}.html", context)


# Hosts: their heartbeats, load, jobs and versions, and draining one before maintenance.


@requires(Right.VIEW, everywhere=True)
@require_GET
def hosts(request: HttpRequest) -> HttpResponse:
    """Show all hosts, or return only the table to a page that refreshes."""
    part = request.headers.get("HX-Target") == "hosts"
    return render(request, f"hosts/{'_list' if part else 'page'}.html", {"hosts": shown_hosts()})


@requires(Right.HOSTS, everywhere=True)
@require_POST
def drain_host(request: HttpRequest, pk: int) -> HttpResponse:
    """Have a host take no new jobs, or take jobs again."""
    host = get_object_or_404(Host, pk=pk)
    drain(host, is_drained=request.POST.get("drained") == "yes")
    if host.is_drained:
        text = _("%(host)s takes no new jobs. Those that run continue; others wait.")
    else:
        text = _("%(host)s takes jobs.")
    messages.success(request, text % {"host": host.name})
    return redirect("hosts")


@requires(Right.HOSTS, everywhere=True)
@require_POST
def remove_host(request: HttpRequest, pk: int) -> HttpResponse:
    """Remove a host that is away and has nothing."""
    host = get_object_or_404(Host, pk=pk)
    if remove_unused(host):
        messages.success(request, _("Removed %(path)s.") % {"path": host.name})
    else:
        messages.error(request, in_use_text(host))
    return redirect("hosts")


# A health check for monitoring programs.


logger = logging.getLogger(__name__)


@login_not_required
@require_safe
def health(request: HttpRequest) -> HttpResponse:
    """Return 200 and "ok" if the database answers, else 503 and "unavailable"."""
    problem = problem_while_served()
    try:
        if not problem:
            Location.objects.exists()
    except DatabaseError as error:
        problem = str(error)
    if problem:
        logger.error("not healthy: %s", problem)
    text = "unavailable" if problem else "ok"
    return HttpResponse(f"{text}\n", content_type="text/plain", status=503 if problem else 200)


# The metrics that Prometheus reads.


@login_not_required
@require_safe
def show_metrics(request: HttpRequest) -> HttpResponse:
    """Return the metrics to a client that sends the token. Without METRICS_TOKEN, there is no such page."""
    if not settings.METRICS_TOKEN:
        raise Http404
    if not constant_time_compare(
        request.headers.get("Authorization", ""), f"Bearer {settings.METRICS_TOKEN}"
    ):
        refused = HttpResponse("The token is wrong.\n", content_type="text/plain", status=401)
        refused["WWW-Authenticate"] = "Bearer"
        return refused
    if problem := problem_while_served():
        return HttpResponse(f"{problem}\n", content_type="text/plain", status=503)
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


# A notice that an administrator shows on every page: the first line of the file NOTICE_FILE.


MAX_NOTICE_BYTES = 2_000


@requires(Right.VIEW)
@require_GET
def show_site_notice(request: HttpRequest) -> HttpResponse:
    """Return the part of a page that shows the notice, for an open page."""
    return render(request, "components/_site_notice.html")


def notice_context(request: HttpRequest) -> dict[str, str | bool]:
    """Return the notice for every template, and whether there may be one."""
    return {"site_notice": _notice(), "has_site_notices": bool(settings.NOTICE_FILE)}


def _notice() -> str:
    if not settings.NOTICE_FILE:
        return ""
    try:
        with Path(settings.NOTICE_FILE).open("rb") as file:
            first = file.read(MAX_NOTICE_BYTES).decode("utf-8", "replace").strip().partition("\n")[0]
    except OSError:
        return ""
    return "".join(character for character in first if character.isprintable())


# What Forkline stores itself.


DRAFTS_A_PAGE = 50


@requires(Right.VIEW, everywhere=True)
@require_GET
def show_stored_data(request: HttpRequest) -> HttpResponse:
    """Show the sizes of what the data folder holds, and each draft."""
    host = chosen_host(request.GET.get("host"))
    key = host.pk if host else None
    page = Paginator(ask(ListDrafts(), host=key), DRAFTS_A_PAGE).get_page(request.GET.get("page"))
    context = {
        "hosts": hosts_if_several(),
        "chosen": host,
        "sizes": list(ask(ReadSizes(), host=key)),
        "page": page,
        "drafts": drafts_of(list(page)),
        "scratch_days": settings.SCRATCH_DAYS,
        "now": timezone.now(),
    }
    return render(request, "stored_data/page.html", context)

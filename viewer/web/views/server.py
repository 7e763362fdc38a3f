"""Pages about the server: health, daily limits, stored data, a notice, and redirects."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.paginator import Paginator
from django.db import DatabaseError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_safe

from viewer.data_folder.identity import problem_while_served
from viewer.host_requests import ListDrafts, ReadSizes, ask
from viewer.models import DayLimits, Job, Location, Project
from viewer.presentation.hosts import hosts_if_several
from viewer.presentation.jobs.status import usage_label
from viewer.records.annotations import mark_of
from viewer.records.drafts import drafts_of
from viewer.records.hosts import chosen_host
from viewer.records.limits import limits_in, midnight, usage_of
from viewer.records.permissions import viewer_allowed
from viewer.web.forms.options import DailyLimitsForm, limit_texts

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


# Daily limits, as the pages show them on which they are changed.


@dataclass(frozen=True, slots=True)
class ShownLimits:
    """``used`` is the usage of each limit, ``zone`` the time zone of the day.

    ``seen`` is the mark of the limits (viewer/records/annotations.py).
    """

    form: DailyLimitsForm
    used: list[str]
    zone: str
    seen: str


def limits_of_day(form: DailyLimitsForm | None = None) -> ShownLimits:
    """The limits of all jobs together; ``form`` is the one that was sent, with its errors."""
    return _shown("day", DayLimits.current(), Job.objects.all(), form)


def limits_of_project(project: Project, form: DailyLimitsForm | None = None) -> ShownLimits:
    """The limits of one project."""
    return _shown("project", project.limits, Job.objects.filter(project=project), form)


def _shown(
    scope: str, stored: dict[str, Any], jobs: QuerySet[Job], form: DailyLimitsForm | None
) -> ShownLimits:
    used = usage_of(jobs, midnight()) if stored else {}
    labels = [usage_label(limit, used[limit.measure]) for limit in limits_in(scope, stored)]
    form = form or DailyLimitsForm(initial=limit_texts(stored), stored=stored)
    return ShownLimits(form, labels, timezone.get_current_timezone_name(), mark_of(stored))


# A notice that an administrator shows on every page: the first line of the file NOTICE_FILE.


MAX_BYTES = 2_000


@viewer_allowed
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
            first = file.read(MAX_BYTES).decode("utf-8", "replace").strip().partition("\n")[0]
    except OSError:
        return ""
    return "".join(character for character in first if character.isprintable())


# What Forkline stores itself.


DRAFTS_A_PAGE = 50


@viewer_allowed
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

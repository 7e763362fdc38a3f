"""A notice that an administrator shows on every page: the first line of the file NOTICE_FILE."""

from pathlib import Path

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from viewer.access.permissions import viewer_allowed

MAX_BYTES = 2_000


@viewer_allowed
@require_GET
def show(request: HttpRequest) -> HttpResponse:
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

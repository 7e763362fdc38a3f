"""What a share link shows to anybody who has it. Only these views know its token, and they only read."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from viewer.models import ShareLink
from viewer.sharing import Shared, link_for
from viewer.sharing.states import state_of
from viewer.sharing.visits import is_program, is_view
from viewer.views.shares.origins import origin_of
from viewer.views.shares.pages import shared_page, shared_picture, shared_rows

# Its path is the link's, so that each link is counted once in a browser session.
VIEWED_COOKIE = f"forkline_viewed_{settings.PORT}"
HEADERS = {"Referrer-Policy": "no-referrer", "X-Robots-Tag": "noindex, nofollow, noarchive"}

View = Callable[[HttpRequest, str], HttpResponse]


def through_link(view: View) -> View:
    """Mark a view that a share link leads to: it needs no login, accepts no form, and sends no referrer."""

    @wraps(view)
    def shown(request: HttpRequest, token: str) -> HttpResponse:
        response = view(request, token)
        for name, value in HEADERS.items():
            response[name] = value
        return response

    decorated: Any = login_not_required(require_safe(shown))
    decorated.through_link = True
    return decorated  # type: ignore[no-any-return]


@through_link
def show(request: HttpRequest, token: str) -> HttpResponse:
    """Show the object of a link. A program that makes a preview of the link gets no content."""
    found = link_for(token)
    if found is None:
        return dead_link(request)
    link, shared = found
    if is_program(request):
        return render(
            request, "shared/unfurled.html", {"link": link, "shared": shared, **_image(request, found)}
        )
    maker = link.made_by_id
    is_new = request.user.pk != maker and VIEWED_COOKIE not in request.COOKIES and is_view(request)
    more = {"link": link, "socket": f"/ws/shared/{token}/", "state": state_of(link)}
    more |= _image(request, found)
    response = shared_page(request, shared, more)
    if is_new:
        link.count_view()
        secure = bool(settings.SESSION_COOKIE_SECURE)
        response.set_cookie(
            VIEWED_COOKIE, "1", path=request.path, secure=secure, httponly=True, samesite="Strict"
        )
    return response


@through_link
def rows(request: HttpRequest, token: str) -> HttpResponse:
    """Return rows of a shared run."""
    found = link_for(token)
    return (shared_rows(request, found[1]) if found else None) or dead_link(request)


@through_link
def picture(request: HttpRequest, token: str) -> HttpResponse:
    """Return the picture of a shared run's lineage, if the maker of the link chose that it unfurls."""
    found = link_for(token)
    if found is None or not found[0].unfurls:
        return dead_link(request)
    return shared_picture(found[1]) or dead_link(request)


def _image(request: HttpRequest, found: tuple[ShareLink, Shared]) -> dict[str, str]:
    """Return the address of the picture, which has to be absolute; empty if there is none."""
    link, shared = found
    return (
        {"picture": f"{origin_of(request)}{request.path}picture.png"}
        if link.unfurls and shared.has_picture
        else {}
    )


def dead_link(request: HttpRequest) -> HttpResponse:
    """Return the page of every link that does not work, which does not say why or what it led to."""
    return render(request, "shared/dead.html", status=404)

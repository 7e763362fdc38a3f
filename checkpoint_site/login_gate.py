"""Who is let in: whoever is not logged in is led to the way in, and from there back to a page."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseForbidden
from django.http.response import HttpResponseBase
from django.shortcuts import resolve_url
from django_htmx.http import HttpResponseClientRedirect

from viewer.access.permissions import check_right


class WayIn(LoginRequiredMiddleware):
    """Every page needs a login, and the right to run, unless its view says otherwise."""

    def process_view(
        self,
        request: HttpRequest,
        view_func: Callable[..., HttpResponseBase],
        view_args: tuple[Any, ...],
        view_kwargs: dict[str, Any],
    ) -> HttpResponseBase | None:
        """None where the view may answer. Raises PermissionDenied where it must not."""
        refused = super().process_view(request, view_func, view_args, view_kwargs)
        if refused is None and getattr(view_func, "login_required", True):
            check_right(request.user, view_func)
        return refused and led_to_the_login(request)


def led_to_the_login(request: HttpRequest) -> HttpResponse:
    """The way to the login. What asks for a part of a page never gets the login's page for it."""
    way_in = redirect_to_login(page_to_come_back_to(request))
    if "HX-Request" not in request.headers:
        return way_in
    if request.method != "GET":
        # What was typed stays in its form, for a login in another tab.
        return HttpResponseForbidden()
    return HttpResponseClientRedirect(way_in.url)


def page_to_come_back_to(request: HttpRequest) -> str:
    """What was asked for, where that is a page to look at; else the page that asked for it."""
    is_page = "HX-Request" not in request.headers or "HX-Boosted" in request.headers
    if request.method == "GET" and is_page:
        return request.get_full_path()
    asking = urlsplit(request.headers.get("HX-Current-URL") or request.headers.get("Referer") or "")
    if asking.netloc != request.get_host():
        return resolve_url(settings.LOGIN_REDIRECT_URL)
    return f"{asking.path}?{asking.query}" if asking.query else asking.path

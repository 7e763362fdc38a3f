"""Requires a login for every page and redirects back to the requested page afterwards."""

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseForbidden
from django.http.response import HttpResponseBase
from django.shortcuts import resolve_url
from django_htmx.http import HttpResponseClientRedirect

from viewer.access.permissions import check_right


class LoginGate(LoginRequiredMiddleware):
    """Middleware: every view requires a login and the permission to run, unless it is marked otherwise."""

    def process_view(
        self,
        request: HttpRequest,
        view_func: Callable[..., HttpResponseBase],
        view_args: tuple[Any, ...],
        view_kwargs: dict[str, Any],
    ) -> HttpResponseBase | None:
        """Return None if the view may respond. Raise PermissionDenied if the user may not open it."""
        refused = super().process_view(request, view_func, view_args, view_kwargs)
        if refused is None and getattr(view_func, "login_required", True):
            check_right(request.user, view_func)
        return refused and login_response(request)


def login_response(request: HttpRequest) -> HttpResponse:
    """Return a redirect to the login page. An htmx request for a partial never receives the page itself."""
    redirect = redirect_to_login(next_path(request))
    if "HX-Request" not in request.headers:
        return redirect
    if request.method != "GET":
        # The form keeps what was typed while the user logs in in another tab.
        return HttpResponseForbidden()
    return HttpResponseClientRedirect(redirect.url)


def next_path(request: HttpRequest) -> str:
    """Return the requested path if it is a page, else the path of the page that sent the request."""
    is_page = "HX-Request" not in request.headers or "HX-Boosted" in request.headers
    if request.method == "GET" and is_page:
        return request.get_full_path()
    source = request.headers.get("HX-Current-URL") or request.headers.get("Referer") or ""
    # Not parsed, as any client may send malformed ones.
    host, _, path = source.partition("#")[0].partition("://")[2].partition("/")
    if host != request.get_host():
        return resolve_url(settings.LOGIN_REDIRECT_URL)
    return f"/{path}"

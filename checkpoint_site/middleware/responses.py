"""Middleware around views: who gets a response, in which language, and what is sent instead of it.

People log in to pages, and programs send a token to the HTTP interface.
"""

import re
import sys
from collections.abc import Callable
from functools import wraps
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.models import AnonymousUser
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseForbidden, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render, resolve_url
from django.template.loader import render_to_string
from django.utils.deprecation import MiddlewareMixin
from django.utils.translation import activate
from django.views.defaults import server_error
from django_htmx.http import HttpResponseClientRedirect

from checkpoint_site.middleware.throttle import address_key, throttle
from viewer.data_folder.failures import failure_text
from viewer.data_folder.permissions import problem_while_served, what_changed
from viewer.host_requests import HostRefusal
from viewer.messages.translation import translate
from viewer.models.accounts import chosen_language
from viewer.models.roles import access_of, restricted_to, unrestricted
from viewer.records.accounts import record_token_use, token_for
from viewer.records.permissions import check_rule

GetResponse = Callable[[HttpRequest], HttpResponseBase]
View = Callable[..., HttpResponseBase]

# Requires a login for every page and redirects back to the requested page afterwards.


class LoginGate(LoginRequiredMiddleware):
    """Middleware: every view requires a login and the right of its rule, and reads only the user's rows."""

    def __call__(self, request: HttpRequest) -> Any:
        # Also for what no view answers, such as the page of an unknown address.
        with restricted_to(lambda: access_of(request.user)):
            return super().__call__(request)

    def process_view(
        self,
        request: HttpRequest,
        view_func: View,
        view_args: tuple[Any, ...],
        view_kwargs: dict[str, Any],
    ) -> HttpResponseBase | None:
        """Return None if the view may respond. Raise PermissionDenied or Http404 if the user may not."""
        if getattr(view_func, "without_data", False):
            return None
        refused = super().process_view(request, view_func, view_args, view_kwargs)
        if refused is None and getattr(view_func, "login_required", True):
            check_rule(request.user, view_func)
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


# The HTTP interface for programs: whom a token acts for, and errors as JSON documents.

API = "/api/"


class TokenUser(MiddlewareMixin):
    """Middleware: the user of a request to the HTTP interface is its token's, never that of a session.

    A token is checked before a failure is counted: it cannot be guessed, so one that works is never refused.
    """

    def process_view(
        self, request: HttpRequest, view: View, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> HttpResponseBase | None:
        """Return None if the view may respond, else why not."""
        if not getattr(view, "by_token", False):
            return None
        scheme, _blank, text = request.headers.get("Authorization", "").partition(" ")
        token = token_for(text.strip()) if scheme.lower() == "bearer" else None
        with unrestricted():
            user = token.limited_user if token else AnonymousUser()
        # A person without a role has nothing that a token could be for.
        if token and access_of(user).highest:
            record_token_use(token)
            request.user, request.token = user, token.pk  # type: ignore[attr-defined]
            return None
        request.user = AnonymousUser()
        if wait := throttle.use_attempt([address_key("token", request)]):
            refused = error_response(HTTPStatus.TOO_MANY_REQUESTS)
            refused["Retry-After"] = str(wait)
            return refused
        return error_response(HTTPStatus.UNAUTHORIZED)


def json_errors(get_response: GetResponse) -> GetResponse:
    """Middleware: in the HTTP interface, every error is a JSON document, in English."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith(API):
            return get_response(request)
        activate("en")
        response = get_response(request)
        is_json = response.get("Content-Type", "").startswith("application/json")
        if response.status_code < 400 or is_json:
            return response
        error = error_response(HTTPStatus(response.status_code))
        for name in ("Retry-After", "Allow"):
            if name in response:
                error[name] = response[name]
        return error

    return middleware


# What an error says, unless its view says more.
ERROR_TEXTS = {
    HTTPStatus.UNAUTHORIZED: "Send a token that works: Authorization: Bearer fkl_…",
    HTTPStatus.FORBIDDEN: "This token does not have the role for that.",
    HTTPStatus.NOT_FOUND: "There is no such object, or this token does not see it.",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many requests with a token that does not work.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The data folder is not available. Try again later.",
}


def error_response(status: HTTPStatus) -> JsonResponse:
    """Return an error as a JSON document."""
    response = JsonResponse({"error": ERROR_TEXTS.get(status, status.phrase)}, status=status)
    if status == HTTPStatus.UNAUTHORIZED:
        response["WWW-Authenticate"] = "Bearer"
    return response


# Shows a page with a way back when someone opens the URL of a form.


def method_not_allowed(get_response: GetResponse) -> GetResponse:
    """Middleware: render a page for a GET request that was answered with 405."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        if response.status_code == 405 and request.method == "GET":
            page = render(request, "405.html", status=405)
            page["Allow"] = response["Allow"]
            return page
        return response

    return middleware


# Keeps browsers and proxies from storing pages.


def no_store(get_response: GetResponse) -> GetResponse:
    """Middleware: ``Cache-Control: no-store`` on pages, partials and downloads, but not on static files."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        response["Cache-Control"] = "no-store"
        return response

    return middleware


# Keeps what another site's page shows in a frame from depending on who is logged in.


EMBEDDED = re.compile(r"/shared/[^/]+/embed/")


def embedded_without_cookies(get_response: GetResponse) -> GetResponse:
    """Middleware: drop the cookies of a request for an embedded view."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        if EMBEDDED.fullmatch(request.path_info):
            request.META.pop("HTTP_COOKIE", None)
            request.COOKIES = {}
        return get_response(request)

    return middleware


# Shows pages in the language that a user has chosen, instead of the browser's.


class ReaderLanguage(MiddlewareMixin):
    """Middleware: after LocaleMiddleware has activated the browser's language, activate the user's."""

    def process_view(
        self, request: HttpRequest, view: View, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        """Activate the language. Views without a data folder have no user, and programs read English."""
        if getattr(view, "without_data", False) or getattr(view, "by_token", False):
            return
        if language := chosen_language(request.user):
            activate(language)
            request.LANGUAGE_CODE = language


# Responds with 503 and the reason while the data folder is unavailable. Needs no database and no login.


RETRY_SECONDS = 10


def unavailable(text: str) -> HttpResponse:
    """Return a 503 page with the reason."""
    page = HttpResponse(render_to_string("503.html", {"text": text}), status=503)
    page["Retry-After"] = str(RETRY_SECONDS)
    return page


def server_error_page(request: HttpRequest) -> HttpResponse:
    """Return the page for an unhandled exception: 503 for disk and database errors, else 500."""
    error = sys.exc_info()[1]
    text = failure_text(error) or what_changed() if error else ""
    return unavailable(text) if text else server_error(request)


def without_data(view: View) -> View:
    """Decorator: mark a view that responds without a data folder, and to everybody about all rows.

    The page of an error, which is rendered after the view, reads only the user's rows.
    """

    @wraps(view)
    def unrestricted_view(*arguments: Any, **named: Any) -> HttpResponseBase:
        with unrestricted():
            return view(*arguments, **named)

    unrestricted_view.without_data = True  # type: ignore[attr-defined]
    return unrestricted_view


class DataFolderUnavailable(MiddlewareMixin):
    """Middleware: respond with 503 while the data folder is missing or replaced."""

    def process_view(
        self, request: HttpRequest, view: View, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> HttpResponseBase | None:
        """Return None if the view may respond."""
        if getattr(view, "without_data", False):
            return None
        text = problem_while_served()
        return unavailable(text) if text else None


class HostUnavailable(MiddlewareMixin):
    """Middleware: respond with 503 and the reason to a page that needs a host which does not answer."""

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Return the page; None for another error."""
        if not isinstance(error, HostRefusal):
            return None
        context = {"text": translate(error), "sent": sent_fields(request)}
        page = render(request, "host_away.html", context, status=503)
        page["Retry-After"] = str(RETRY_SECONDS)
        return page


def sent_fields(request: HttpRequest) -> list[tuple[str, str]]:
    """Return the names and values of a form, to be submitted again; empty if it had a file.

    Browsers store no page, so going back would lose what was typed. What htmx sends stays on its page.
    """
    if request.FILES or request.htmx:  # type: ignore[attr-defined]
        return []
    values = ((name, value) for name, values in request.POST.lists() for value in values)
    return [(name, value) for name, value in values if name != "csrfmiddlewaretoken"]


class AvailableSockets:
    """ASGI wrapper: refuses sockets while the data folder is missing or replaced."""

    def __init__(self, sockets: Callable[..., Any]) -> None:
        self.sockets = sockets

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if problem_while_served():
            await send({"type": "websocket.close", "code": 1013})
        else:
            await self.sockets(scope, receive, send)


# Gives the Python frames of a page one piece of memory.
#
# Python allocates frames in pieces of 16 KB, and releases a piece when its first frame returns. Where calls
# cross the end of a piece, each allocates and releases another one: the home page did so 6,000 times, which
# took half of its processor time. A larger frame gets a larger piece, with room for the frames of its calls.

# In words. Python doubles the 16 KB until the frame fits: 512 KB, half of which remains for other frames.
# Memory that no frame uses stays virtual.
FRAME_WORDS = 32 * 1024


def share_memory(get_response: GetResponse) -> GetResponse:
    """Middleware: have all frames of a response in one piece of memory."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        return get_response(request)

    middleware.__code__ = middleware.__code__.replace(co_stacksize=FRAME_WORDS)
    return middleware

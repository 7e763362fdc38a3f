"""Responds with 503 and the reason while the data folder is unavailable. Needs no database and no login."""

import sys
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.views.defaults import server_error

from viewer.data_folder import failure_text
from viewer.data_folder.identity import problem_while_served, what_changed

RETRY_SECONDS = 10
View = Callable[..., HttpResponseBase]


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
    """Decorator: mark a view that responds without a data folder."""
    view.without_data = True  # type: ignore[attr-defined]
    return view


class DataFolderUnavailable:
    """Middleware: respond with 503 while the data folder is missing or replaced."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: View, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> HttpResponseBase | None:
        """Return None if the view may respond."""
        if getattr(view, "without_data", False):
            return None
        text = problem_while_served()
        return unavailable(text) if text else None


class AvailableSockets:
    """ASGI wrapper: refuses sockets while the data folder is missing or replaced."""

    def __init__(self, sockets: Callable[..., Any]) -> None:
        self.sockets = sockets

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if problem_while_served():
            await send({"type": "websocket.close", "code": 1013})
        else:
            await self.sockets(scope, receive, send)

"""A plain page with words while the data folder cannot be used. It needs no database and no login."""

import sys
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.views.defaults import server_error

from viewer.data_folder import failure_words
from viewer.data_folder.identity import problem_while_served

RETRY_SECONDS = 10
View = Callable[..., HttpResponseBase]


def unavailable(words: str) -> HttpResponse:
    """The page, which says why."""
    page = HttpResponse(render_to_string("503.html", {"words": words}), status=503)
    page["Retry-After"] = str(RETRY_SECONDS)
    return page


def failed(request: HttpRequest) -> HttpResponse:
    """What is answered to an error that nobody expected: its words where it is our disk's or database's."""
    error = sys.exc_info()[1]
    words = failure_words(error) if error else ""
    return unavailable(words) if words else server_error(request)


def without_data(view: View) -> View:
    """The view, which is asked though there may be no data folder."""
    view.without_data = True  # type: ignore[attr-defined]
    return view


class Unavailable:
    """Middleware: no view is asked while the data folder is gone or replaced."""

    def __init__(self, answer: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.answer = answer

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.answer(request)

    def process_view(
        self, request: HttpRequest, view: View, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> HttpResponseBase | None:
        """None where the view may answer."""
        if getattr(view, "without_data", False):
            return None
        words = problem_while_served()
        return unavailable(words) if words else None


class SocketsWhileAvailable:
    """The sockets' application, which accepts none while the data folder is gone or replaced."""

    def __init__(self, sockets: Callable[..., Any]) -> None:
        self.sockets = sockets

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if problem_while_served():
            await send({"type": "websocket.close", "code": 1013})
        else:
            await self.sockets(scope, receive, send)

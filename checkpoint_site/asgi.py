"""The ASGI application: sockets through Channels, and Django's pages from a small pool of threads.

Django's own handler starts threads for every request. With ``CONN_MAX_AGE = None``, each keeps a database
connection open, so memory and descriptors grow with the number of requests. Visitors and programs use only
some of the pool's threads.
"""

import asyncio
import contextvars
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import django
from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "checkpoint_site.settings")
django.setup(set_prefix=False)

from django.conf import settings  # noqa: E402
from django.core.handlers.asgi import ASGIHandler  # noqa: E402
from django.db import close_old_connections  # noqa: E402
from django.http import FileResponse, HttpRequest, HttpResponse  # noqa: E402
from django.http.response import HttpResponseBase  # noqa: E402
from django.urls import Resolver404, resolve  # noqa: E402

from checkpoint_site.middleware.requests import (  # noqa: E402
    AllowedHostSockets,
    AllowedOriginSockets,
    over_tls,
    with_body_limit,
    with_header_limit,
)
from checkpoint_site.middleware.responses import AvailableSockets  # noqa: E402
from checkpoint_site.middleware.throttle import throttled_share_sockets  # noqa: E402
from viewer.data_folder.locks import use  # noqa: E402
from viewer.web.live.consumer import websocket_urlpatterns  # noqa: E402
from viewer.web.metrics import count_request  # noqa: E402

# Python runs one thread at a time. The others wait for the disk or for a slow import.
PAGE_THREADS = 6
# Those of them that each kind of visitor uses at the same time. Otherwise, anybody with a share link, or a
# program, could keep people waiting who have a login, or who log in.
VISITOR_THREADS = 2
# Further requests of the same kind of visitor are answered with 503.
MAX_WAITING_VISITORS = 200
RETRY_SECONDS = 5
# The names of the routes of share links.
SHARED = {"shared", "shared-rows", "shared-picture", "shared-embed"}


class Visitor(Enum):
    """Who sends requests that anybody can send, at the cost of a page."""

    SHARED = "opens a share link"
    PROGRAM = "uses the HTTP interface"
    STRANGER = "opens the login page, or another one without a session"


@dataclass
class Budget:
    """The threads of a kind of visitor, and how many requests use them or wait for them."""

    threads: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(VISITOR_THREADS))
    requests: int = 0


class Pages(ASGIHandler):
    """Responds to requests. The event loop, not a thread, receives bodies and sends responses."""

    def __init__(self) -> None:
        self.threads = ThreadPoolExecutor(PAGE_THREADS, thread_name_prefix="page")
        self.budgets = {kind: Budget() for kind in Visitor}
        super().__init__()

    def load_middleware(self, is_async: bool = False) -> None:
        """Load synchronous middleware. As async middleware, each would switch to a thread and back."""
        super().load_middleware(is_async=False)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.handle(scope, receive, send)

    async def run_get_response(self, request: HttpRequest) -> HttpResponseBase:
        """Return the response, and count it."""
        response = await self._admitted(request)
        count_request(request, response)
        return response

    async def _admitted(self, request: HttpRequest) -> HttpResponseBase:
        """Return the response, with 503 to visitors if too many of them wait."""
        kind = visitor_of(request)
        if kind is None:
            return await self._in_thread(request)
        budget = self.budgets[kind]
        if budget.requests >= MAX_WAITING_VISITORS:
            return busy()
        budget.requests += 1
        try:
            async with budget.threads:
                return await self._in_thread(request)
        finally:
            budget.requests -= 1

    async def _in_thread(self, request: HttpRequest) -> HttpResponseBase:
        """Return the response, produced in a thread. A disconnecting client does not interrupt it."""
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self.threads, context.run, self._response, request)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            response = await future
            await loop.run_in_executor(self.threads, response.close)
            raise

    def _response(self, request: HttpRequest) -> HttpResponseBase:
        close_old_connections()
        try:
            response = self.get_response(request)
        finally:
            close_old_connections()
        response._handler_class = self.__class__  # type: ignore[attr-defined]
        if isinstance(response, FileResponse):
            response.block_size = self.chunk_size
        return response


def visitor_of(request: HttpRequest) -> Visitor | None:
    """Return the kind of visitor who sent a request; None if it may come from somebody with a login.

    A request with a forged session costs no more than a redirect to the login page. A health check has to
    answer while visitors wait.
    """
    has_session = settings.SESSION_COOKIE_NAME in request.COOKIES
    try:
        found = resolve(request.path_info)
    except Resolver404:
        is_static = request.path_info.startswith(settings.STATIC_URL)
        return None if has_session and is_static else Visitor.STRANGER
    if getattr(found.func, "without_data", False):
        return None
    if getattr(found.func, "by_token", False):
        return Visitor.PROGRAM
    if has_session and getattr(found.func, "login_required", True):
        return None
    return Visitor.SHARED if found.url_name in SHARED else Visitor.STRANGER


def busy() -> HttpResponse:
    """Return the response to a visitor if too many others wait."""
    return HttpResponse(
        "Too many visitors. Try again in a few seconds.\n",
        status=503,
        content_type="text/plain",
        headers={"Retry-After": str(RETRY_SECONDS), "Cache-Control": "no-store"},
    )


if settings.DATA_DIR.is_dir():
    use()
application = over_tls(
    with_header_limit(
        ProtocolTypeRouter(
            {
                "http": with_body_limit(Pages()),
                "websocket": AllowedHostSockets(
                    AvailableSockets(
                        AllowedOriginSockets(
                            throttled_share_sockets(AuthMiddlewareStack(URLRouter(websocket_urlpatterns))),
                            settings.ALLOWED_ORIGINS,
                        )
                    )
                ),
            }
        )
    )
)

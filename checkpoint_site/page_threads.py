"""Serves Django's pages over ASGI from a small pool of threads, of which visitors use only some.

Django's own handler starts threads for every request. With ``CONN_MAX_AGE = None``, each keeps a database
connection open, so memory and descriptors grow with the number of requests.
"""

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.db import close_old_connections
from django.http import FileResponse, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import Resolver404, resolve

# Python runs one thread at a time. The others wait for the disk or for a slow import.
PAGE_THREADS = 6
# Those of them that visitors use at the same time: whoever opens a share link or the login page, or has no
# session. Otherwise, anybody with a share link could keep people with a login waiting.
VISITOR_THREADS = 2
# Further requests of visitors are answered with 503.
MAX_WAITING_VISITORS = 200
RETRY_SECONDS = 5


class Pages(ASGIHandler):
    """Responds to requests. The event loop, not a thread, receives bodies and sends responses."""

    def __init__(self) -> None:
        self.threads = ThreadPoolExecutor(PAGE_THREADS, thread_name_prefix="page")
        self.visitor_threads = asyncio.Semaphore(VISITOR_THREADS)
        self.visitors = 0
        super().__init__()

    def load_middleware(self, is_async: bool = False) -> None:
        """Load synchronous middleware. As async middleware, each would switch to a thread and back."""
        super().load_middleware(is_async=False)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.handle(scope, receive, send)

    async def run_get_response(self, request: HttpRequest) -> HttpResponseBase:
        """Return the response, with 503 to visitors if too many of them wait."""
        if not is_visitor(request):
            return await self._in_thread(request)
        if self.visitors >= MAX_WAITING_VISITORS:
            return busy()
        self.visitors += 1
        try:
            async with self.visitor_threads:
                return await self._in_thread(request)
        finally:
            self.visitors -= 1

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


def is_visitor(request: HttpRequest) -> bool:
    """Return whether a request is one that anybody can make, at the cost of a page.

    A request with a forged session is not one: it costs no more than a redirect to the login page. Nor is a
    health check, which has to answer while visitors wait.
    """
    has_session = settings.SESSION_COOKIE_NAME in request.COOKIES
    try:
        view = resolve(request.path_info).func
    except Resolver404:
        return not (has_session and request.path_info.startswith(settings.STATIC_URL))
    if getattr(view, "without_data", False):
        return False
    return not (has_session and getattr(view, "login_required", True))


def busy() -> HttpResponse:
    """Return the response to a visitor if too many others wait."""
    response = HttpResponse("Too many visitors. Try again in a few seconds.\n", content_type="text/plain")
    response.status_code = 503
    response["Retry-After"] = str(RETRY_SECONDS)
    response["Cache-Control"] = "no-store"
    return response

"""Serves Django's pages over ASGI from a small pool of threads.

Django's own handler starts threads for every request. With ``CONN_MAX_AGE = None``, each keeps a database
connection open, so memory and descriptors grow with the number of requests.
"""

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.core.handlers.asgi import ASGIHandler
from django.db import close_old_connections
from django.http import FileResponse, HttpRequest
from django.http.response import HttpResponseBase

# Python runs one thread at a time. The others wait for the disk or for a slow import.
PAGE_THREADS = 6


class Pages(ASGIHandler):
    """Responds to requests. The event loop, not a thread, receives bodies and sends responses."""

    def __init__(self) -> None:
        self.threads = ThreadPoolExecutor(PAGE_THREADS, thread_name_prefix="page")
        super().__init__()

    def load_middleware(self, is_async: bool = False) -> None:
        """Load synchronous middleware. As async middleware, each would switch to a thread and back."""
        super().load_middleware(is_async=False)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.handle(scope, receive, send)

    async def run_get_response(self, request: HttpRequest) -> HttpResponseBase:
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

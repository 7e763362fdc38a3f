"""Django's pages over ASGI, each made by one thread of a pool.

Django's own handler starts threads for every request. Each of them opens a database connection that stays
open with ``CONN_MAX_AGE = None``, so that memory and descriptors grow with the number of requests.
"""

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.core.handlers.asgi import ASGIHandler
from django.db import close_old_connections
from django.http import FileResponse, HttpRequest
from django.http.response import HttpResponseBase

# Python runs one of them at a time; a second one waits for the disk, and the others for a slow import.
PAGE_THREADS = 6


class Pages(ASGIHandler):
    """Answers requests. Bodies are received and answers sent without a thread."""

    def __init__(self) -> None:
        self.threads = ThreadPoolExecutor(PAGE_THREADS, thread_name_prefix="page")
        super().__init__()

    def load_middleware(self, is_async: bool = False) -> None:
        """Load it for threads: for the event loop, each piece would go to a thread and back by itself."""
        super().load_middleware(is_async=False)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.handle(scope, receive, send)

    async def run_get_response(self, request: HttpRequest) -> HttpResponseBase:
        """Make the answer in a thread. A client that goes away does not stop it halfway."""
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        making = loop.run_in_executor(self.threads, context.run, self._response, request)
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            response = await making
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

"""Rejects requests to other hosts, including the port, and those that are too large.

Django's own check ignores the port, so a page of another server on this machine, or a DNS name that an
attacker controls, would pass.
"""

import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from channels.security.websocket import OriginValidator
from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.http.request import split_domain_port
from django.utils.http import is_same_domain

logger = logging.getLogger(__name__)

DEFAULT_PORTS = {"http": 80, "https": 443}
SECONDS_BETWEEN_WARNINGS = 60
MAX_SHOWN = 80

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]
View = Callable[[HttpRequest], HttpResponse]


def allowed_hosts(origins: Iterable[str]) -> list[tuple[str, frozenset[str]]]:
    """Return the hosts of the origins, each with its allowed ports. An empty port means none."""
    found = []
    for origin in origins:
        parts = urlsplit(origin)
        host = (parts.hostname or "").removeprefix("*")
        default = DEFAULT_PORTS.get(parts.scheme)
        ports = {str(parts.port or default)} | ({""} if parts.port in (None, default) else set())
        found.append((f"[{host}]" if ":" in host else host, frozenset(ports)))
    return found


def is_allowed(header: str, origins: Iterable[str] | None = None) -> bool:
    """Return whether a Host header names one of the allowed origins."""
    host, port = split_domain_port(header)
    hosts = allowed_hosts(settings.ALLOWED_ORIGINS if origins is None else origins)
    return bool(host) and any(port in ports and is_same_domain(host, pattern) for pattern, ports in hosts)


@dataclass
class Warnings:
    """Logs at most one warning a minute, because anyone can send wrong hosts at any rate."""

    warned_at: float = float("-inf")
    unlogged: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def warn(self, host: str) -> None:
        """Log a refused host in one line."""
        with self.lock:
            if time.monotonic() - self.warned_at < SECONDS_BETWEEN_WARNINGS:
                self.unlogged += 1
                return
            more, self.unlogged, self.warned_at = self.unlogged, 0, time.monotonic()
        shown = ascii(host[:MAX_SHOWN])
        logger.warning("Refused a request for %s, which ALLOWED_ORIGINS does not name (%d more)", shown, more)


warnings = Warnings()


def allowed_hosts_only(get_response: View) -> View:
    """Outermost middleware: respond with 400 to other hosts."""

    def middleware(request: HttpRequest) -> HttpResponse:
        if is_allowed(named_host(request)):
            return get_response(request)
        warnings.warn(request.META.get("HTTP_HOST", ""))
        refused = HttpResponseBadRequest("This host is not allowed.\n", content_type="text/plain")
        # Otherwise Django logs each response, with its path.
        refused._has_been_logged = True  # type: ignore[attr-defined]
        return refused

    return middleware


def named_host(request: HttpRequest) -> str:
    """Return the host that a request names; empty if ALLOWED_HOSTS does not contain it."""
    try:
        return request.get_host()
    except DisallowedHost:
        return ""


def over_tls(application: Application) -> Any:
    """Wrap an ASGI application: if all origins are https, all requests came over TLS to the proxy.

    So no header has to be trusted for it. Django then sends Strict-Transport-Security.
    """

    async def secure(scope: Message, receive: Receive, send: Send) -> None:
        if settings.IS_BEHIND_TLS and scope["type"] == "http":
            scope = {**scope, "scheme": "https"}
        await application(scope, receive, send)

    return secure


class AllowedOriginSockets(OriginValidator):
    """ASGI wrapper: refuses sockets of pages from other origins, and those with a malformed Origin header."""

    def __init__(self, application: Any, allowed_origins: Sequence[str]) -> None:
        super().__init__(application, allowed_origins)  # type: ignore[no-untyped-call]

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        try:
            for name, value in scope["headers"]:
                if name == b"origin":
                    # Raises ValueError for a port that is no number.
                    urlsplit(value.decode("latin-1")).port  # noqa: B018
        except ValueError:
            await receive()
            await send({"type": "websocket.close"})
            return
        await super().__call__(scope, receive, send)  # type: ignore[no-untyped-call]


class AllowedHostSockets:
    """ASGI wrapper: refuses sockets for other hosts."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
        if is_allowed(host):
            await self.application(scope, receive, send)
            return
        warnings.warn(host)
        await receive()
        await send({"type": "websocket.close"})


# Rejects requests with headers or a body that are too large, the latter before receiving all of it.

MAX_BODY_BYTES = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
# Of the request line and all headers. The web server itself notices only headers that arrive in parts.
MAX_HEADER_BYTES = settings.MAX_HEADER_BYTES

TOO_LARGE = (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, b"The request is too large.\n")


class BodyTooLarge(Exception):
    """The body is larger than ``MAX_BODY_BYTES``."""


def with_header_limit(application: Application) -> Application:
    """Wrap an ASGI application: requests for pages and sockets with headers that are too large get 431."""

    async def limited(scope: Message, receive: Receive, send: Send) -> None:
        if _header_bytes(scope) <= MAX_HEADER_BYTES:
            await application(scope, receive, send)
        elif scope["type"] == "http":
            await _reject(send, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, b"The headers are too large.\n")
        else:
            await send({"type": "websocket.close"})

    return limited


def with_body_limit(application: Application) -> Application:
    """Wrap an ASGI application: requests with a body that is too large are answered with 413."""

    async def limited(scope: Message, receive: Receive, send: Send) -> None:
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > MAX_BODY_BYTES:
                raise BodyTooLarge
            return message

        if _content_length(scope) > MAX_BODY_BYTES:
            await _reject(send, *TOO_LARGE)
            return
        try:
            await application(scope, counted, send)
        except BodyTooLarge:
            await _reject(send, *TOO_LARGE)

    return limited


def _header_bytes(scope: Message) -> int:
    """Return the size of the request line and the headers, about as they were sent."""
    line = len(scope.get("raw_path", b"")) + len(scope["query_string"])
    # A colon, a space and the line break.
    return line + sum(len(name) + len(value) + 4 for name, value in scope["headers"])


def _content_length(scope: Message) -> int:
    """Return the Content-Length header in bytes, or 0 if there is none."""
    length = dict(scope["headers"]).get(b"content-length", b"0")
    return int(length) if length.isdigit() else 0


async def _reject(send: Send, status: HTTPStatus, text: bytes) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": int(status), "headers": headers})
    await send({"type": "http.response.body", "body": text})

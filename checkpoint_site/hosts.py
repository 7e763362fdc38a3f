"""Answers only requests for an address that is served, host and port. Everything else gets a plain 400.

Django's own check ignores the port. A page of another server on this machine, or a name that an
attacker points at it, would pass with any port.
"""

import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.utils.http import is_same_domain

logger = logging.getLogger(__name__)

DEFAULT_PORTS = {"http": 80, "https": 443}
SECONDS_BETWEEN_WARNINGS = 60
MAX_SHOWN = 80

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


def served_hosts(origins: Iterable[str]) -> list[tuple[str, frozenset[str]]]:
    """The hosts of these origins, each with the ports that may follow it; an empty one is none at all."""
    found = []
    for origin in origins:
        parts = urlsplit(origin)
        host = (parts.hostname or "").removeprefix("*")
        default = DEFAULT_PORTS.get(parts.scheme)
        ports = {str(parts.port or default)} | ({""} if parts.port in (None, default) else set())
        found.append((f"[{host}]" if ":" in host else host, frozenset(ports)))
    return found


def is_served(header: str, origins: Iterable[str] | None = None) -> bool:
    """Whether a Host header names one of the origins that are served."""
    host, port = split_port(header.lower())
    hosts = served_hosts(settings.ALLOWED_ORIGINS if origins is None else origins)
    return any(port in ports and is_same_domain(host, pattern) for pattern, ports in hosts)


def split_port(header: str) -> tuple[str, str]:
    """The host and the port of a Host header, as texts. The port is empty where there is none."""
    host, colon, port = header.rpartition(":")
    if not colon or port.endswith("]"):
        return header.removesuffix("."), ""
    return host.removesuffix("."), port or "none"


@dataclass
class Warnings:
    """At most one warning a minute: anybody can send a wrong host, as often as they like."""

    warned: float = float("-inf")
    more: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def warn(self, host: str) -> None:
        """Log the refusal of this host, in one line."""
        with self.lock:
            if time.monotonic() - self.warned < SECONDS_BETWEEN_WARNINGS:
                self.more += 1
                return
            more, self.more, self.warned = self.more, 0, time.monotonic()
        shown = ascii(host[:MAX_SHOWN])
        logger.warning("Refused a request for %s, which ALLOWED_ORIGINS does not name (%d more)", shown, more)


warnings = Warnings()


def only_served(answer: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware, the outermost: 400 for every other host."""

    def answered(request: HttpRequest) -> HttpResponse:
        host = request.META.get("HTTP_HOST") or f"{request.META['SERVER_NAME']}:{request.get_port()}"
        if is_served(host) and is_valid(request):
            return answer(request)
        warnings.warn(host)
        refused = HttpResponseBadRequest("This address is not served here.\n", content_type="text/plain")
        # Else Django would log each one, with the path that was asked for.
        refused._has_been_logged = True  # type: ignore[attr-defined]
        return refused

    return answered


def is_valid(request: HttpRequest) -> bool:
    """Whether Django takes the host as well, which would else log a traceback for it later."""
    with suppress(DisallowedHost):
        return bool(request.get_host())
    return False


class ServedSockets:
    """The same for sockets: one for another host is denied."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
        if is_served(host):
            await self.application(scope, receive, send)
            return
        warnings.warn(host)
        await receive()
        await send({"type": "websocket.close"})

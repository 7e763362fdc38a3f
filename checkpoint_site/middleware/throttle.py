"""Limits failed logins, per client address and per account, and share links that do not work, per address.

Each has a budget of attempts that refills over time. An attempt is counted before it is checked, so that
parallel attempts cannot exceed the budget, and refunded if it succeeds. Login links are limited by address
only: their account is known after their signature is verified, so nobody can use up another's attempts.

The web process holds the budgets in memory. A data folder has one web process.
"""

import ipaddress
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render

View = Callable[..., HttpResponseBase]
MAX_KEYS = 10_000


class AttemptKey(NamedTuple):
    """What attempts are counted for: an address or an account, or an address for share links."""

    kind: str
    name: str


class Budget(NamedTuple):
    """A number of attempts, and the seconds after which one more is allowed."""

    attempts: int
    seconds: float


# A page that a share link leads to is several requests, and each uses an attempt until it has succeeded.
BUDGETS = {"address": Budget(10, 15), "account": Budget(20, 30), "share": Budget(40, 3)}


@dataclass
class Throttle:
    """The attempts that each key has used, and when they were counted."""

    clock: Callable[[], float] = time.monotonic
    used: dict[AttemptKey, tuple[float, float]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def use_attempt(self, keys: Sequence[AttemptKey]) -> float:
        """Use one attempt of each key. Return the seconds to wait if one has none left, else 0."""
        with self.lock:
            used = {key: self._used(key) for key in keys}
            waits = [
                (count + 1 - BUDGETS[key.kind].attempts) * BUDGETS[key.kind].seconds
                for key, count in used.items()
            ]
            if max(waits) > 0:
                return max(waits)
            now = self.clock()
            for key, count in used.items():
                self.used[key] = (count + 1, now)
            self._shrink()
            return 0

    def refund(self, keys: Sequence[AttemptKey]) -> None:
        """Refund an attempt that succeeded."""
        with self.lock:
            for key in keys:
                self.used[key] = (max(0, self._used(key) - 1), self.clock())

    def _used(self, key: AttemptKey) -> float:
        count, at = self.used.get(key, (0, 0))
        return max(0, count - (self.clock() - at) / BUDGETS[key.kind].seconds)

    def _shrink(self) -> None:
        """Drop the keys with the fewest used attempts if there are too many."""
        if len(self.used) > MAX_KEYS:
            ordered = sorted(self.used, key=self._used, reverse=True)
            self.used = {key: self.used[key] for key in ordered[: MAX_KEYS // 2]}


throttle = Throttle()


def throttled(view: View, is_attempt: Callable[[HttpRequest], bool]) -> View:
    """Wrap a view: respond with 429 if no attempt is left."""

    @wraps(view)
    def limited(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        if not is_attempt(request):
            return view(request, *args, **kwargs)
        keys = keys_of(request)
        wait = throttle.use_attempt(keys)
        if wait:
            return too_many_attempts(request, math.ceil(wait))
        response = view(request, *args, **kwargs)
        if response.status_code == 302:
            throttle.refund(keys)
        return response

    return limited


def throttled_links(view: View) -> View:
    """Wrap a view of share links: respond with 429 if no attempt is left. A link that works uses none."""

    @wraps(view)
    def limited(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        keys = [AttemptKey("share", network_of(client_address(request)))]
        wait = throttle.use_attempt(keys)
        if wait:
            page = render(request, "shared/too_many.html", {"wait": math.ceil(wait)}, status=429)
            page["Retry-After"] = str(math.ceil(wait))
            return page
        response = view(request, *args, **kwargs)
        if response.status_code != 404:
            throttle.refund(keys)
        return response

    return limited


class ThrottledShareSockets:
    """ASGI wrapper: limits sockets of share links that do not work. A link works if its socket sends."""

    def __init__(self, sockets: Callable[..., Any]) -> None:
        self.sockets = sockets

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if not scope["path"].startswith("/ws/shared/"):
            await self.sockets(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        remote = (scope.get("client") or ("",))[0]
        keys = [AttemptKey("share", network_of(address_in(remote, headers.get("x-forwarded-for", ""))))]
        if throttle.use_attempt(keys):
            await receive()
            await send({"type": "websocket.close", "code": 1013})
            return
        has_worked = False

        async def counted(message: dict[str, Any]) -> None:
            nonlocal has_worked
            if message["type"] == "websocket.send" and not has_worked:
                has_worked = True
                throttle.refund(keys)
            await send(message)

        await self.sockets(scope, receive, counted)


def keys_of(request: HttpRequest) -> list[AttemptKey]:
    """Return the keys that an attempt counts for."""
    keys = [AttemptKey("address", network_of(client_address(request)))]
    name = request.POST.get("username", "") if request.method == "POST" else ""
    return [*keys, AttemptKey("account", name.strip().casefold()[:150])] if name else keys


def client_address(request: HttpRequest) -> str:
    """Return the client's address. Behind a TLS proxy, it is the last one that the proxy added."""
    return address_in(request.META.get("REMOTE_ADDR") or "", request.headers.get("X-Forwarded-For", ""))


def address_in(address: str, forwarded: str) -> str:
    """Return the address of a connection, or the last one that the header names behind a TLS proxy."""
    return forwarded.rpartition(",")[2].strip() if settings.IS_BEHIND_TLS and forwarded else address


def network_of(address: str) -> str:
    """Return the address, or the /64 network of an IPv6 address, which usually belongs to one household."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "unknown"
    if parsed.version == 4:
        return str(parsed)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


def too_many_attempts(request: HttpRequest, seconds: int) -> HttpResponse:
    """Return the login page with the time to wait."""
    shown = {"form": AuthenticationForm(), "next": request.POST.get("next", ""), "wait": seconds}
    page = render(request, "login/page.html", shown, status=429)
    page["Retry-After"] = str(seconds)
    return page

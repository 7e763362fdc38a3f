"""Slows down guessing: only so many failed logins from an address, and for an account's password.

Each has a budget of attempts that fills up again over time. An attempt is counted before it is checked, so
that many at once are not all let through, and given back where it succeeds. A login link is limited by
address alone: its account is known only once its signature is, so nobody can use up another's attempts.

The budgets are held by the web process, of which a data folder has one.
"""

import ipaddress
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import NamedTuple

from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render

View = Callable[..., HttpResponseBase]
MAX_KEYS = 10_000


class Key(NamedTuple):
    """Whose attempts are counted: an address's or an account's."""

    kind: str
    name: str


class Budget(NamedTuple):
    """So many attempts at once, and one more each so many seconds."""

    attempts: int
    seconds: float


BUDGETS = {"address": Budget(10, 15), "account": Budget(20, 30)}


@dataclass
class Throttle:
    """How many attempts each key has used, and when that was counted."""

    clock: Callable[[], float] = time.monotonic
    used: dict[Key, tuple[float, float]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, keys: Sequence[Key]) -> float:
        """Use one attempt of each key. Returns the seconds to wait where one has none left."""
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

    def give_back(self, keys: Sequence[Key]) -> None:
        """Forget the attempt that succeeded."""
        with self.lock:
            for key in keys:
                self.used[key] = (max(0, self._used(key) - 1), self.clock())

    def _used(self, key: Key) -> float:
        count, at = self.used.get(key, (0, 0))
        return max(0, count - (self.clock() - at) / BUDGETS[key.kind].seconds)

    def _shrink(self) -> None:
        """Forget the keys that have used least, where there are too many to remember."""
        if len(self.used) > MAX_KEYS:
            ordered = sorted(self.used, key=self._used, reverse=True)
            self.used = {key: self.used[key] for key in ordered[: MAX_KEYS // 2]}


throttle = Throttle()


def throttled(view: View, is_attempt: Callable[[HttpRequest], bool]) -> View:
    """The view, which answers 429 instead where its attempts are used up."""

    @wraps(view)
    def limited(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        if not is_attempt(request):
            return view(request, *args, **kwargs)
        keys = keys_of(request)
        wait = throttle.take(keys)
        if wait:
            return refused(request, math.ceil(wait))
        response = view(request, *args, **kwargs)
        if response.status_code == 302:
            throttle.give_back(keys)
        return response

    return limited


def keys_of(request: HttpRequest) -> list[Key]:
    """Whose attempt this is."""
    keys = [Key("address", network_of(client_address(request)))]
    name = request.POST.get("username", "") if request.method == "POST" else ""
    return [*keys, Key("account", name.strip().casefold()[:150])] if name else keys


def client_address(request: HttpRequest) -> str:
    """Where a request comes from. Behind the proxy that speaks TLS, that is what the proxy has added last."""
    address = request.META.get("REMOTE_ADDR") or ""
    forwarded = request.headers.get("X-Forwarded-For", "")
    return forwarded.rpartition(",")[2].strip() if settings.IS_BEHIND_TLS and forwarded else address


def network_of(address: str) -> str:
    """The address; of IPv6, the network that one household has as a whole."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "unknown"
    if parsed.version == 4:
        return str(parsed)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


def refused(request: HttpRequest, seconds: int) -> HttpResponse:
    """The login page, which says how long to wait."""
    shown = {"form": AuthenticationForm(), "next": request.POST.get("next", ""), "wait": seconds}
    page = render(request, "login/page.html", shown, status=429)
    page["Retry-After"] = str(seconds)
    return page

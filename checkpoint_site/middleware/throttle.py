"""Limits failed logins, per address and per account, and links and tokens that do not work, per address.

A password is counted before it is checked, so that parallel guesses cannot exceed the limit, and refunded if
it is right. A link is checked first: its token cannot be guessed, so one that works is never refused.

A web server holds the counts in memory, so guesses write nothing. Several web servers count in rows instead:
otherwise each of them would allow as many. django-axes counts logins in the database, and knows neither links
nor sockets.
"""

import ipaddress
import math
import threading
import time
import unicodedata
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import wraps
from hashlib import sha256
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from allauth.account.internal.stagekit import unstash_login
from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.core.cache.backends.base import DEFAULT_TIMEOUT
from django.core.cache.backends.locmem import LocMemCache
from django.db import DatabaseError
from django.db.models import F, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from limits import RateLimitItem, RateLimitItemPerMinute
from limits.storage import MemoryStorage, Storage
from limits.strategies import FixedWindowRateLimiter

from viewer.data_folder.locks import exclusive_transaction
from viewer.models import AttemptCount
from viewer.web.live.feeds import TRY_AGAIN_LATER

View = Callable[..., HttpResponseBase]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Sockets = Callable[[dict[str, Any], Any, Any], Awaitable[None]]
# The sockets of share links. Channels ignores slashes before it.
SHARED = "ws/shared/"
LOOPBACK = {"127.0.0.1", "localhost", "::1"}


class AttemptKey(NamedTuple):
    """What attempts are counted for: an address or an account, or an address for share links."""

    kind: str
    name: str


# The failures of each kind in a number of minutes. The guide names them.
BUDGETS: dict[str, RateLimitItem] = {
    "address": RateLimitItemPerMinute(10, 2),
    "account": RateLimitItemPerMinute(20, 10),
    "share": RateLimitItemPerMinute(40, 2),
    "token": RateLimitItemPerMinute(40, 2),
    # Mail with a link for a new password, by the address that asks for it and by what is typed.
    "reset": RateLimitItemPerMinute(10, 10),
    "mail": RateLimitItemPerMinute(3, 60),
}


class RowStorage(Storage):
    """Counts in rows, each for one window. The caller's transaction excludes others."""

    base_exceptions = DatabaseError

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        AttemptCount.objects.filter(ends_at__lte=Now()).delete()
        defaults = {"count": 0, "ends_at": Now() + timedelta(seconds=expiry)}
        row, _is_new = AttemptCount.objects.get_or_create(key=_digest_of(key), defaults=defaults)
        # Also if its window ends meanwhile.
        AttemptCount.objects.filter(pk=row.pk).update(count=F("count") + amount)
        return row.count + amount

    def decr(self, key: str, amount: int = 1) -> None:
        _rows_of(key).filter(count__gte=amount).update(count=F("count") - amount)

    def get(self, key: str) -> int:
        return _rows_of(key).values_list("count", flat=True).first() or 0

    def get_expiry(self, key: str) -> float:
        ends_at, now = _rows_of(key).values_list("ends_at", Now()).first() or (None, None)
        return time.time() + ((ends_at - now).total_seconds() if ends_at and now else 0)

    def check(self) -> bool:
        return True

    def reset(self) -> int:
        return AttemptCount.objects.all().delete()[0]

    def clear(self, key: str) -> None:
        _rows_of(key).delete()


def _rows_of(key: str) -> QuerySet[AttemptCount]:
    return AttemptCount.objects.filter(key=_digest_of(key), ends_at__gt=Now())


def _digest_of(key: str) -> str:
    # What was typed as a name may be a password.
    return sha256(key.encode(errors="replace")).hexdigest()


class SharedCache(LocMemCache):
    """Django's cache in the memory of a process, but what is added counts for all web servers, in rows.

    With ``add``, django-allauth marks the codes and tokens that were used.
    """

    def add(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        """Return False if the key was added within its time, by any process."""
        seconds = float(self.default_timeout or 0) if timeout is DEFAULT_TIMEOUT else timeout
        with exclusive_transaction("attempts"):
            return RowStorage().incr(f"added {key}", math.ceil(seconds)) == 1

    def delete(self, key: str, version: int | None = None) -> bool:
        """Let the key be added again."""
        RowStorage().clear(f"added {key}")
        return bool(super().delete(key, version))


class Throttle:
    """The failures of each key in the current window, in memory or in rows."""

    def __init__(self, storage: MemoryStorage | RowStorage) -> None:
        self.storage = storage
        self.limiter = FixedWindowRateLimiter(storage)
        self.lock = threading.Lock()

    def one_step(self) -> AbstractContextManager[Any]:
        """Exclude others in the block: testing all keys and counting them is one step."""
        return self.lock if isinstance(self.storage, MemoryStorage) else exclusive_transaction("attempts")

    def use_attempt(self, keys: Sequence[AttemptKey]) -> int:
        """Count one attempt of each key. Return the seconds to wait if one has none left, else 0."""
        with self.one_step():
            used_up = [key for key in keys if not self.limiter.test(BUDGETS[key.kind], *key)]
            if used_up:
                resets = [
                    self.limiter.get_window_stats(BUDGETS[key.kind], *key).reset_time for key in used_up
                ]
                return max(1, math.ceil(max(resets) - time.time()))
            for key in keys:
                self.limiter.hit(BUDGETS[key.kind], *key)
            return 0

    def refund(self, keys: Sequence[AttemptKey]) -> None:
        """Refund an attempt that succeeded."""
        with self.one_step():
            for key in keys:
                self.storage.decr(BUDGETS[key.kind].key_for(*key))


throttle = Throttle(RowStorage() if settings.IS_DATABASE_SHARED else MemoryStorage())


def throttled_passwords(view: View) -> View:
    """Wrap a view with a form for a password or a code: respond with 429 if no attempt is left."""

    @wraps(view)
    def limited(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        if request.method != "POST":
            return view(request, *args, **kwargs)
        keys = [address_key("address", request), *account_keys(request)]
        if wait := throttle.use_attempt(keys):
            return too_many(request, "login/page.html", wait)
        response = view(request, *args, **kwargs)
        if response.status_code == HTTPStatus.FOUND:
            throttle.refund(keys)
        return response

    return limited


def throttled_mail(view: View) -> View:
    """Wrap the view that sends a link for a new password: respond with 429 if no mail is left."""

    @wraps(view)
    def limited(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        if request.method == "POST":
            # Whether there is such an account makes no difference.
            typed = AttemptKey("mail", request.POST.get("name", "").strip().casefold()[:254])
            if wait := throttle.use_attempt([address_key("reset", request), typed]):
                return too_many(request, "passwords/forgot.html", wait)
        return view(request, *args, **kwargs)

    return limited


def account_keys(request: HttpRequest) -> list[AttemptKey]:
    """Return the keys for the accounts whose password or second factor a form may have."""
    keys = []
    # The login form reads a name in this form, in which many ways to write it are the same.
    typed = unicodedata.normalize("NFKC", request.POST.get("username", "").strip())
    if name := typed.casefold()[:150]:
        keys.append(AttemptKey("account", name))
    # Of a person who is logged in, or whose password was right.
    login = unstash_login(request, peek=True)
    person = request.user if request.user.is_authenticated else login.user if login else None
    if person:
        keys.append(AttemptKey("account", f"key {person.pk}"))
    return keys


def throttled_links(kind: str, failures: Collection[HTTPStatus], template: str) -> Callable[[View], View]:
    """Return a decorator of views of links: respond with 429 to one that does not work if none is left.

    The view responds with one of ``failures`` to links that do not work. ``template`` is that of the 429.
    """

    def decorator(view: View) -> View:
        @wraps(view)
        def limited(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
            response = view(request, *args, **kwargs)
            if response.status_code not in failures:
                return response
            wait = throttle.use_attempt([address_key(kind, request)])
            return too_many(request, template, wait) if wait else response

        return limited

    return decorator


def too_many(request: HttpRequest, template: str, seconds: int) -> HttpResponse:
    """Return a 429 page with the time to wait: the login page, or that of links that do not work."""
    shown = {"form": AuthenticationForm(), "next": request.POST.get("next", ""), "wait": seconds}
    page = render(request, template, shown, status=HTTPStatus.TOO_MANY_REQUESTS)
    page["Retry-After"] = str(seconds)
    return page


throttled_login_links = throttled_links("address", {HTTPStatus.FORBIDDEN}, "login/page.html")
# Of an invitation that works, a refused form may be a guess at the names of accounts.
throttled_invitations = throttled_links(
    "address", {HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY}, "invitations/dead.html"
)
throttled_reset_links = throttled_links("address", {HTTPStatus.FORBIDDEN}, "passwords/dead.html")
throttled_share_links = throttled_links("share", {HTTPStatus.NOT_FOUND}, "shared/too_many.html")


def address_of(request: HttpRequest) -> str:
    """Return the address of a request's client."""
    remote = request.META.get("REMOTE_ADDR") or ""
    return client_address(remote, request.headers.get("X-Forwarded-For", ""))


def address_key(kind: str, request: HttpRequest) -> AttemptKey:
    """Return the key for the address of a request's client."""
    return AttemptKey(kind, network_of(address_of(request)))


def throttled_share_sockets(sockets: Sockets) -> Sockets:
    """Wrap sockets: close those of share links that do not work with another code if no attempt is left.

    A link works if its socket sends something.
    """

    async def limited(scope: dict[str, Any], receive: Any, send: Send) -> None:
        has_worked = False

        async def counted(message: dict[str, Any]) -> None:
            nonlocal has_worked
            has_worked |= message["type"] == "websocket.send"
            if message["type"] == "websocket.close" and not has_worked:
                wait = await database_sync_to_async(throttle.use_attempt)([socket_key(scope)])
                message = {**message, "code": TRY_AGAIN_LATER} if wait else message
            await send(message)

        await sockets(scope, receive, counted if scope["path"].lstrip("/").startswith(SHARED) else send)

    return limited


def socket_key(scope: dict[str, Any]) -> AttemptKey:
    """Return the key for the address of a share link's socket."""
    forwarded = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
    remote = (scope.get("client") or ("",))[0]
    return AttemptKey("share", network_of(client_address(remote, ",".join(forwarded))))


def client_address(remote: str, forwarded: str) -> str:
    """Return the address of a connection's client.

    Behind a proxy, it is the last one in ``X-Forwarded-For``: those before it may come from the client.
    """
    return forwarded.rpartition(",")[2] if forwarded and is_behind_proxy() else remote


def is_behind_proxy() -> bool:
    """Return whether all origins are a proxy's: with TLS, or other names than those of this machine.

    Only the proxy may reach the server then. Browsers themselves reach one with its own certificate.
    """
    if settings.TLS_CERTIFICATE:
        return False
    names = (urlsplit(origin).hostname for origin in settings.ALLOWED_ORIGINS)
    return settings.IS_BEHIND_TLS or not LOOPBACK.intersection(names)


def network_of(address: str) -> str:
    """Return the address, or the /64 network of an IPv6 address, which usually belongs to one household."""
    parsed = parsed_address(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed or "unknown")


def parsed_address(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an address as a value; None if it is none. Some proxies add a port, brackets or quotes."""
    text = address.strip('" ')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        parsed = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return parsed.ipv4_mapped or parsed if isinstance(parsed, ipaddress.IPv6Address) else parsed

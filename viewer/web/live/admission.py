"""Closes open sockets when their session ends, or their user or a right changes.

Any process that ends a session or changes a right commits to the database. So the sockets of this web
process are checked after commits, with a few queries for all of them, and when a session expires.
"""

import asyncio
import logging
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Protocol

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, load_backend
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from viewer.data_folder.changes import changes_of_rows
from viewer.models import Access, access_of

logger = logging.getLogger(__name__)

CHECK_SECONDS = 0.25
# Why a socket is closed: the page reads these codes in static/js/live.js.
# Nothing more follows, so the page does not reconnect.
NORMAL_CLOSURE = 1000
# The page reconnects, and receives what it missed.
INTERNAL_ERROR = 1011
TRY_AGAIN_LATER = 1013
# The page does not reconnect after these.
LOGGED_OUT = 4401
RIGHT_CHANGED = 4403
# The job or the location was removed.
NOT_THERE = 4404


class Admission(NamedTuple):
    """The session, user and rights that a socket was opened with."""

    session: str
    user: str
    access: Access


class AdmittedSocket(Protocol):
    """An open socket that can be closed at any time."""

    async def end(self, code: int) -> None: ...


class Allowed(NamedTuple):
    """What a session allows, and when it expires."""

    user: str
    access: Access
    expires: datetime


@dataclass
class Guard:
    """The open sockets of one event loop. ``is_due`` is true if some were opened since the last check."""

    sockets: dict[AdmittedSocket, Admission] = field(default_factory=dict)
    is_due: bool = False
    expires: datetime | None = None
    task: asyncio.Task[None] | None = None


# By event loop: a web process has one.
guards: dict[asyncio.AbstractEventLoop, Guard] = {}


def watch(socket: AdmittedSocket, admission: Admission) -> None:
    """Start checking this socket."""
    guard = guards.setdefault(asyncio.get_running_loop(), Guard())
    guard.sockets[socket] = admission
    # The next check finds changes made since the socket was opened.
    guard.is_due = True
    if guard.task is None:
        guard.task = asyncio.create_task(keep_checking(guard))


def unwatch(socket: AdmittedSocket) -> None:
    """Stop checking this socket. Checks end with the last one."""
    loop = asyncio.get_running_loop()
    guard = guards.get(loop)
    if guard is None:
        return
    guard.sockets.pop(socket, None)
    if not guard.sockets and guard.task is not None:
        del guards[loop]
        guard.task.cancel()


async def keep_checking(guard: Guard) -> None:
    """Check all sockets after commits, at most four times a second, and when a session expires."""
    with closing(changes_of_rows()) as changes:
        while True:
            try:
                has_expired = guard.expires is not None and guard.expires <= timezone.now()
                if changes.wait() or guard.is_due or has_expired:
                    guard.is_due = False
                    await check(guard)
            except Exception:
                guard.is_due = True
                logger.exception("checking sessions")
            await asyncio.sleep(CHECK_SECONDS)


async def check(guard: Guard) -> None:
    """Close the sockets whose session now allows more or less than when they were opened."""
    sockets = dict(guard.sockets)
    sessions = {admission.session for admission in sockets.values()}
    allowed = await database_sync_to_async(allowed_by, thread_sensitive=False)(sessions)
    guard.expires = min((one.expires for one in allowed.values()), default=None)
    for socket, admission in sockets.items():
        code = close_code(admission, allowed.get(admission.session))
        if code and guard.sockets.pop(socket, None):
            await socket.end(code)


def close_code(admission: Admission, allowed: Allowed | None) -> int | None:
    """Return the code to close a socket with; None if it may stay open."""
    if allowed is None or allowed.user != admission.user:
        return LOGGED_OUT
    return RIGHT_CHANGED if allowed.access != admission.access else None


def allowed_by(sessions: Collection[str]) -> dict[str, Allowed]:
    """Return what each session allows, without those that allow nothing. Writes nothing."""
    users: dict[tuple[str, str], User | None] = {}
    found = {}
    for session in Session.objects.filter(session_key__in=sessions, expire_date__gt=timezone.now()):
        data = session.get_decoded()
        key = (str(data.get(BACKEND_SESSION_KEY)), str(data.get(SESSION_KEY)))
        if key not in users:
            users[key] = user_of(*key)
        user = users[key]
        if user is not None and is_signed_by(user, str(data.get(HASH_SESSION_KEY, ""))):
            found[session.session_key] = Allowed(key[1], access_of(user), session.expire_date)
    return found


def user_of(backend: str, pk: str) -> User | None:
    """Return the session's user, as in a request; None if deactivated or deleted."""
    if backend not in settings.AUTHENTICATION_BACKENDS or not pk.isdigit():
        return None
    return load_backend(backend).get_user(int(pk))


def is_signed_by(user: User, mark: str) -> bool:
    """Return whether the session was created with the user's current password."""
    marks = [user.get_session_auth_hash(), *user.get_session_auth_fallback_hash()]
    return any(constant_time_compare(mark, one) for one in marks)

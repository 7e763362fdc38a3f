"""The sockets of open pages: what each sends, when it is closed, and who else has its run open."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Collection, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol
from urllib.parse import parse_qs
from uuid import UUID, uuid4
from weakref import WeakKeyDictionary, WeakSet

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, load_backend
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import path, re_path
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.translation import get_language_from_request, override

from viewer.data_folder.changes import changes_of_rows
from viewer.models import Access, Job, Location, Presence, Right, Run, ShareLink, access_of, uuid_of
from viewer.models.accounts import chosen_language
from viewer.presentation.share_links import open_link
from viewer.validation import number_in
from viewer.web.live import broadcast
from viewer.web.live.feeds import (
    INTERNAL_ERROR,
    LOGGED_OUT,
    NOT_THERE,
    RIGHT_CHANGED,
    TRY_AGAIN_LATER,
    JobFeed,
    RowsFeed,
    home_group,
    location_group,
    share_group,
)

# The socket of a page.


logger = logging.getLogger(__name__)

# Maximum messages that wait for a page. A slower page reconnects, and receives what it missed.
MAX_WAITING = 100
# Sockets of share links that may be open at the same time, so that enough connections are left for others.
MAX_SOCKETS = 200
# How many share links are looked up at the same time. All sockets share four threads.
MAX_THREADS = 2
open_sockets: "WeakSet[PageConsumer]" = WeakSet()
# All open sockets of this process.
connected: "WeakSet[PageConsumer]" = WeakSet()
# By event loop: a web process has one.
threads: "WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]" = WeakKeyDictionary()


class NoSuchSocket(AsyncWebsocketConsumer):
    """Close connections to unknown addresses."""

    async def connect(self) -> None:
        await self.close()


class PageConsumer(AsyncWebsocketConsumer):
    """The socket of a page, which shows ``home``, a ``location``, a ``job`` or a ``share`` link."""

    language = ""
    has_ended = False
    feed: RowsFeed | JobFeed | None = None
    sending: asyncio.Task[None] | None = None
    expiring: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Accept the socket. If it is refused, close it immediately with a reason.

        A page cannot read the reason of a socket that was never accepted.
        """
        await self.accept()
        connected.add(self)
        self.waiting: asyncio.Queue[str | int] = asyncio.Queue(MAX_WAITING)
        code = await (self.refusal_of_link() if self.shows == "share" else self.refusal())
        if code is not None or self.feed is None:
            await self.end(code or NOT_THERE)
            return
        try:
            await broadcast.join(self, self.feed, self.language)
        except BaseException:
            await self.disconnect(INTERNAL_ERROR)
            raise
        self.sending = asyncio.create_task(self.send_waiting())

    @property
    def shows(self) -> str:
        """What the page shows."""
        return str(self.scope["url_route"]["kwargs"]["shows"])

    async def refusal(self) -> int | None:
        """Return the code to close with; None if the user may follow what the page shows."""
        user = self.scope.get("user")
        if not (user and user.is_authenticated):
            return LOGGED_OUT
        access = await database_sync_to_async(access_of)(user)
        self.language = await database_sync_to_async(chosen_language)(user) or self.browser_language
        self.feed = await self.feed_of_rows(access)
        if self.feed is None:
            return NOT_THERE
        # A page rendered before a right changed has the wrong buttons.
        shown = self.query_parameter("may")
        if shown and shown != ("run" if self.feed.can_run else "view"):
            return RIGHT_CHANGED
        # The socket closes when its session or permission ends.
        session = self.scope["session"].session_key
        watch_session(self, Admission(session, str(user.pk), access))
        if self.shows == "location":
            await self.enter_run(user, access)
        return None

    async def enter_run(self, user: User, access: Access) -> None:
        """Show other people that this one has opened the run ``?run=`` of the location, if they may."""
        if (uid := uuid_of(self.query_parameter("run"))) is None:
            return
        runs = Run.objects.visible_to(access).filter(uid=uid, location__uid=self.location_uid)
        if await runs.aexists():
            name = user.get_username()
            enter_room(self, Visitor(uid, user.pk, name, self.language))

    @property
    def location_uid(self) -> UUID:
        """The location in the address."""
        uid: UUID = self.scope["url_route"]["kwargs"]["uid"]
        return uid

    async def feed_of_rows(self, access: Access) -> RowsFeed | JobFeed | None:
        """Return the feed of the home page, or of the job or location in the address, if it is visible."""
        address = self.scope["url_route"]["kwargs"]
        if self.shows == "home":
            return RowsFeed(home_group(access), can_run=access.highest >= Right.RUN.level)
        if self.shows == "location":
            found = Location.objects.visible_to(access).filter(uid=address["uid"])
            location = await found.values_list("pk", flat=True).afirst()
        else:
            jobs = Job.objects.visible_to(access).filter(pk=address["pk"])
            location = await jobs.values_list("location", flat=True).afirst()
        if location is None:
            return None
        can_run = access.level_at(location) >= Right.RUN.level
        if self.shows == "location":
            shown = frozenset(self.query_parameter("shown").split(","))
            return RowsFeed(location_group(address["uid"], access), can_run, shown)
        after, show = number_in(self.query_parameter("after")) or 0, self.query_parameter("show")
        return JobFeed(address["pk"], after, show == "page", can_run, show == "call")

    async def refusal_of_link(self) -> int | None:
        """Return the code to close with; None if the share link works. It needs no login."""
        self.language = self.browser_language
        if len(open_sockets) >= MAX_SOCKETS:
            return TRY_AGAIN_LATER
        open_sockets.add(self)
        token = str(self.scope["url_route"]["kwargs"]["token"])
        async with threads.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(MAX_THREADS)):
            link = await database_sync_to_async(open_link, thread_sensitive=False)(token)
        if link is None:
            return NOT_THERE
        self.feed = RowsFeed(share_group(link.pk))
        self.expiring = asyncio.create_task(self.end_when_expired(link))
        return None

    async def end_when_expired(self, link: ShareLink) -> None:
        """Close the socket at the time at which the link expires."""
        await asyncio.sleep(max(0, (link.expires_at - timezone.now()).total_seconds()))
        await self.end(NOT_THERE)

    def put(self, message: str) -> None:
        """Send a message after the waiting ones. Close the socket if too many wait."""
        if self.waiting.full():
            self.put_end(TRY_AGAIN_LATER)
        else:
            self.waiting.put_nowait(message)

    def put_end(self, code: int) -> None:
        """Close the socket after the waiting messages, or immediately if there are too many."""
        if self.waiting.full():
            while not self.waiting.empty():
                self.waiting.get_nowait()
        self.waiting.put_nowait(code)

    async def send_waiting(self) -> None:
        """Send the waiting messages until the end, or until the page has disconnected."""
        with suppress(OSError):
            while not self.has_ended:
                message = await self.waiting.get()
                if isinstance(message, int):
                    await self.end(message)
                elif not self.has_ended:
                    await self.send(text_data=message)

    async def end(self, code: int) -> None:
        """Close the socket. A message that is being rendered is no longer sent."""
        if not self.has_ended:
            self.has_ended = True
            leave_room(self)
            await self.close(code)

    async def disconnect(self, code: int) -> None:
        self.has_ended = True
        connected.discard(self)
        open_sockets.discard(self)
        unwatch_session(self)
        leave_room(self)
        broadcast.leave(self)
        for task in (self.sending, self.expiring):
            if task:
                task.cancel()

    def query_parameter(self, name: str) -> str:
        """Return a query parameter of the socket's address; empty if it is missing."""
        query: bytes = self.scope["query_string"]
        return parse_qs(query.decode("latin-1")).get(name, [""])[0]

    @property
    def browser_language(self) -> str:
        """The language of the browser, detected as for a page."""
        request = HttpRequest()
        request.COOKIES = self.scope["cookies"]
        accepted: bytes = dict(self.scope["headers"]).get(b"accept-language", b"")
        request.META["HTTP_ACCEPT_LANGUAGE"] = accepted.decode("latin-1")
        return get_language_from_request(request)


# Every socket's address.


websocket_urlpatterns = [
    path("ws/locations/<uuid:uid>/", PageConsumer.as_asgi(), {"shows": "location"}),
    path("ws/home/", PageConsumer.as_asgi(), {"shows": "home"}),
    # ?after=<seq> sends the events after that one.
    path("ws/jobs/<uuid:pk>/", PageConsumer.as_asgi(), {"shows": "job"}),
    # Without a login: the token opens the object of its link only.
    path("ws/shared/<str:token>/", PageConsumer.as_asgi(), {"shows": "share"}),
    # Without it, an unknown URL is logged as an error.
    re_path(r"", NoSuchSocket.as_asgi()),
]


# When a session ends, or its user or a right changes, the sockets that it opened are closed.
#
# Any process that ends a session or changes a right commits to the database. So the sockets of this web
# process are checked after commits, with a few queries for all of them, and when a session expires.


CHECK_SECONDS = 0.25


class Admission(NamedTuple):
    """The session, user and rights that a socket was opened with."""

    session: str
    user: str
    access: Access


class Allowed(NamedTuple):
    """What a session allows, and when it expires."""

    user: str
    access: Access
    expires: datetime


@dataclass
class Guard:
    """The open sockets of one event loop. ``is_due`` is true if some were opened since the last check."""

    sockets: dict[PageConsumer, Admission] = field(default_factory=dict)
    is_due: bool = False
    expires: datetime | None = None
    task: asyncio.Task[None] | None = None


# By event loop: a web process has one.
guards: dict[asyncio.AbstractEventLoop, Guard] = {}


def watch_session(socket: PageConsumer, admission: Admission) -> None:
    """Start checking this socket."""
    guard = guards.setdefault(asyncio.get_running_loop(), Guard())
    guard.sockets[socket] = admission
    # The next check finds changes made since the socket was opened.
    guard.is_due = True
    if guard.task is None:
        guard.task = asyncio.create_task(keep_checking_sessions(guard))


def unwatch_session(socket: PageConsumer) -> None:
    """Stop checking this socket. Checks end with the last one."""
    loop = asyncio.get_running_loop()
    guard = guards.get(loop)
    if guard is None:
        return
    guard.sockets.pop(socket, None)
    if not guard.sockets and guard.task is not None:
        del guards[loop]
        guard.task.cancel()


async def keep_checking_sessions(guard: Guard) -> None:
    """Check all sockets after commits, at most four times a second, and when a session expires."""
    with closing(changes_of_rows()) as changes:
        while True:
            try:
                has_expired = guard.expires is not None and guard.expires <= timezone.now()
                if changes.wait() or guard.is_due or has_expired:
                    guard.is_due = False
                    await check_sessions(guard)
            except Exception:
                guard.is_due = True
                logger.exception("checking sessions")
            await asyncio.sleep(CHECK_SECONDS)


async def check_sessions(guard: Guard) -> None:
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
            users[key] = user_of_session(*key)
        user = users[key]
        if user is not None and is_signed_by(user, str(data.get(HASH_SESSION_KEY, ""))):
            found[session.session_key] = Allowed(key[1], access_of(user), session.expire_date)
    return found


def user_of_session(backend: str, pk: str) -> User | None:
    """Return the session's user, as in a request; None if deactivated or deleted."""
    if backend not in settings.AUTHENTICATION_BACKENDS or not pk.isdigit():
        return None
    return load_backend(backend).get_user(int(pk))


def is_signed_by(user: User, mark: str) -> bool:
    """Return whether the session was created with the user's current password."""
    marks = [user.get_session_auth_hash(), *user.get_session_auth_fallback_hash()]
    return any(constant_time_compare(mark, one) for one in marks)


# Who else has a run open.
#
# A web server knows this from its own sockets. Servers that share a database also store it as rows, which
# each of them renews in one transaction and reads at most every few seconds, while somebody has a run open.


# A page that is reloaded leaves and enters again within this time, so others see no change.
PAUSE_SECONDS = 1.0
# How often the rows of other servers are read, and the own ones renewed.
READ_SECONDS, RENEW_SECONDS = 5.0, 20.0
# After this time, a row is that of a server that has ended.
EXPIRY = timedelta(seconds=60)
# Names that are shown; of the others, only their number.
MAX_NAMES = 3
# This web server, in the rows.
SERVER = uuid4()


class Visitor(NamedTuple):
    """A person with a run open, and the language of the page."""

    run: UUID
    user: int
    name: str
    language: str


class PageSocket(Protocol):
    """An open socket of a page."""

    def put(self, message: str) -> None: ...


# Names by the keys of accounts.
People = dict[int, str]
# The names to show, and how many more there are.
Names = tuple[tuple[str, ...], int]


@dataclass(eq=False)
class Room:
    """The open pages of runs of an event loop, and what each of them shows."""

    visitors: dict[PageSocket, Visitor] = field(default_factory=dict)
    shown: dict[PageSocket, Names] = field(default_factory=dict)
    # The people on other servers by run, and when the own rows were renewed.
    elsewhere: dict[UUID, People] = field(default_factory=dict)
    stored: frozenset[tuple[UUID, int]] = frozenset()
    renewed_at: float = float("-inf")
    has_changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


# By event loop: a web process has one.
rooms: dict[asyncio.AbstractEventLoop, Room] = {}


def enter_room(socket: PageSocket, visitor: Visitor) -> None:
    """Show others that a person has opened a run, and the person who else has."""
    room = rooms.setdefault(asyncio.get_running_loop(), Room())
    room.visitors[socket] = visitor
    room.has_changed.set()
    if room.task is None:
        room.task = asyncio.create_task(keep_showing_names(room))


def leave_room(socket: PageSocket) -> None:
    """Show others that a page was closed."""
    room = rooms.get(asyncio.get_running_loop())
    if room is None or room.visitors.pop(socket, None) is None:
        return
    room.shown.pop(socket, None)
    room.has_changed.set()


async def keep_showing_names(room: Room) -> None:
    """Send each page who else has its run open, whenever that changes, until no page is open."""
    while room.visitors or room.stored:
        try:
            if settings.IS_DATABASE_SHARED:
                with suppress(TimeoutError):
                    await asyncio.wait_for(room.has_changed.wait(), READ_SECONDS)
                room.has_changed.clear()
                await database_sync_to_async(exchange_presence, thread_sensitive=False)(room)
            else:
                await room.has_changed.wait()
                room.has_changed.clear()
            show_names(room)
        except Exception:
            logger.exception("showing who has a run open")
        await asyncio.sleep(PAUSE_SECONDS)
    room.task = None
    rooms.pop(asyncio.get_running_loop(), None)


def show_names(room: Room) -> None:
    """Send each page the names that it does not show yet."""
    here: defaultdict[UUID, People] = defaultdict(dict)
    for visitor in room.visitors.values():
        here[visitor.run][visitor.user] = visitor.name
    messages: dict[tuple[str, Names], str] = {}
    for socket, visitor in room.visitors.items():
        people = {**room.elsewhere.get(visitor.run, {}), **here[visitor.run]}
        names = names_of(name for user, name in people.items() if user != visitor.user)
        if room.shown.get(socket) == names:
            continue
        room.shown[socket] = names
        key = visitor.language, names
        messages[key] = messages.get(key) or presence_message(*names, visitor.language)
        socket.put(messages[key])


def names_of(people: Iterable[str]) -> Names:
    """Return the names to show, and how many more there are."""
    names = sorted(people)
    shown = names if len(names) <= MAX_NAMES + 1 else names[:MAX_NAMES]
    return tuple(shown), len(names) - len(shown)


def presence_message(names: tuple[str, ...], more: int, language: str) -> str:
    """Return the fragment that shows these names."""
    with override(language):
        return render_to_string("live/_present.html", {"names": names, "more": more})


def exchange_presence(room: Room) -> None:
    """Store who has a run open here, if that has changed or is due, and read who has it open elsewhere."""
    here = frozenset((one.run, one.user) for one in list(room.visitors.values()))
    if here != room.stored or time.monotonic() - room.renewed_at > RENEW_SECONDS:
        store_presence(here)
        room.stored, room.renewed_at = here, time.monotonic()
    room.elsewhere = people_elsewhere({run for run, _user in here})


@transaction.atomic
def store_presence(here: Collection[tuple[UUID, int]]) -> None:
    """Make these the rows of this server, and delete those of servers that have ended."""
    own = Presence.objects.filter(server=SERVER).values_list("pk", "run_uid", "user_id")
    gone = [pk for pk, run, user in own if (run, user) not in here]
    Presence.objects.filter(Q(pk__in=gone) | Q(seen_at__lt=Now() - EXPIRY)).delete()
    Presence.objects.bulk_create(
        # The clocks of the servers may differ.
        [Presence(run_uid=run, user_id=user, server=SERVER, seen_at=Now()) for run, user in sorted(here)],
        update_conflicts=True,
        unique_fields=["run_uid", "user", "server"],
        update_fields=["seen_at"],
    )


def people_elsewhere(runs: Collection[UUID]) -> dict[UUID, People]:
    """Return the people who have these runs open on other servers."""
    found: defaultdict[UUID, People] = defaultdict(dict)
    rows = Presence.objects.filter(run_uid__in=runs, seen_at__gte=Now() - EXPIRY).exclude(server=SERVER)
    for run, user, name in rows.values_list("run_uid", "user_id", "user__username"):
        found[run][user] = name
    return dict(found)

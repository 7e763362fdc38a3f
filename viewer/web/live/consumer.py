"""The WebSocket consumer: sends a page what it shows, then each change."""

import asyncio
from contextlib import suppress
from urllib.parse import parse_qs
from uuid import UUID
from weakref import WeakKeyDictionary, WeakSet

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.urls import path, re_path
from django.utils import timezone
from django.utils.translation import get_language_from_request

from viewer.models import Access, Job, Location, Right, Run, ShareLink, access_of, uuid_of
from viewer.models.accounts import chosen_language
from viewer.presentation.share_links import open_link
from viewer.validation import number_in
from viewer.web.live import admission, broadcast
from viewer.web.live.admission import LOGGED_OUT, NOT_THERE, RIGHT_CHANGED, TRY_AGAIN_LATER
from viewer.web.live.feeds import JobFeed, RowsFeed, home_group, location_group, share_group
from viewer.web.live.presence import Visitor, enter, leave

# The WebSocket consumer: sends a page what it shows, then each change.


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
            await self.disconnect(admission.INTERNAL_ERROR)
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
        admission.watch(self, admission.Admission(session, str(user.pk), access))
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
            enter(self, Visitor(uid, user.pk, name, self.language))

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
            leave(self)
            await self.close(code)

    async def disconnect(self, code: int) -> None:
        self.has_ended = True
        connected.discard(self)
        open_sockets.discard(self)
        admission.unwatch(self)
        leave(self)
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

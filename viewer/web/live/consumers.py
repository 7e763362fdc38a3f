"""WebSocket consumers: send a page the current state, then each change."""

import asyncio
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID
from weakref import WeakKeyDictionary, WeakSet

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.translation import get_language_from_request, override

from viewer.models import Job, Location, ShareLink
from viewer.models.annotations import chosen_language
from viewer.presentation.share_links import open_link, state_of
from viewer.records.permissions import can_run
from viewer.web.live import admission, broadcast, feeds, tail
from viewer.web.live.admission import LOGGED_OUT, NOT_THERE, RIGHT_CHANGED, TRY_AGAIN_LATER
from viewer.web.login_links import number_in

# What all sockets share: they follow rows, and end with the login or permission of their user.


class NoSuchSocket(AsyncWebsocketConsumer):
    """Close connections to unknown addresses."""

    async def connect(self) -> None:
        await self.close()


class RowsConsumer(AsyncWebsocketConsumer):
    """A socket that follows a job or a location."""

    can_run = False
    language = ""
    has_ended = False

    async def connect(self) -> None:
        """Accept the socket. If it is refused, close it immediately with a reason.

        A page cannot read the reason of a socket that was never accepted.
        """
        await self.accept()
        code = await self.refusal()
        if code:
            await self.end(code)
        else:
            await self.begin()

    async def refusal(self) -> int | None:
        """Return the code to close with; None if the user may follow this job or location."""
        user = self.scope.get("user")
        if not (user and user.is_authenticated):
            return LOGGED_OUT
        self.can_run = await database_sync_to_async(can_run)(user)
        self.language = await database_sync_to_async(chosen_language)(user) or self.browser_language
        # A page rendered before the permission changed has the wrong buttons.
        shown = self.query_parameter("may")
        if shown and shown != ("run" if self.can_run else "view"):
            return RIGHT_CHANGED
        return None if await self.is_there() else NOT_THERE

    async def is_there(self) -> bool:
        """Return whether the job or location exists."""
        raise NotImplementedError

    async def begin(self) -> None:
        """Send the current state, then each change."""
        raise NotImplementedError

    def watch_admission(self) -> None:
        """Close the socket when its session or permission ends."""
        session, user = self.scope["session"].session_key, str(self.scope["user"].pk)
        admission.watch(self, admission.Admission(session, user, self.can_run))

    async def end(self, code: int) -> None:
        """Close the socket. A message that is being rendered is no longer sent."""
        if not self.has_ended:
            self.has_ended = True
            await self.close(code)

    async def disconnect(self, code: int) -> None:
        self.has_ended = True
        admission.unwatch(self)

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

    @property
    def address(self) -> dict[str, UUID]:
        """The parameters of the socket's path."""
        return dict(self.scope["url_route"]["kwargs"])


class FeedConsumer(RowsConsumer):
    """Send messages from the consumer's own feed whenever rows have changed."""

    group = ""

    def next_message(self) -> str | None:
        """Return the next message of the feed; None if the page is up to date."""
        raise NotImplementedError

    async def join(self, group: str) -> None:
        """Join the group, then send the current state. In this order no change is missed."""
        self.group = group
        await tail.join(group, self.channel_name)
        self.watch_admission()
        await self.send_news()

    async def rows_changed(self, event: dict[str, Any]) -> None:
        if not await self.send_news() and not self.has_ended and not await self.is_there():
            await self.end(NOT_THERE)

    async def send_news(self) -> bool:
        """Send the changes in the user's language. Return False if there are none."""
        if self.has_ended:
            return False
        with override(self.language):
            message = await database_sync_to_async(self.next_message, thread_sensitive=False)()
        if message is None or self.has_ended:
            return False
        await self.send(text_data=message)
        return True

    async def disconnect(self, code: int) -> None:
        await super().disconnect(code)
        if self.group:
            await tail.leave(self.group, self.channel_name)


# The socket of the home page.


class HomeConsumer(FeedConsumer):
    """Notify the home page of changes anywhere."""

    async def is_there(self) -> bool:
        return True

    async def begin(self) -> None:
        self.feed = feeds.HomeFeed()
        await self.join(tail.HOME)

    def next_message(self) -> str | None:
        return feeds.home_message(self.feed)


# The socket of a page that shows a location or one of its runs.


class LocationConsumer(FeedConsumer):
    """Notify a page of changes to its location."""

    async def is_there(self) -> bool:
        return await Location.objects.filter(uid=self.address["uid"]).aexists()

    async def begin(self) -> None:
        uid = self.address["uid"]
        shown = set(self.query_parameter("shown").split(","))
        self.feed = feeds.LocationFeed(uid, shown, can_run=self.can_run)
        await self.join(tail.location_group(uid))

    def next_message(self) -> str | None:
        return feeds.location_message(self.feed)


# The socket of a page that shows a job.


# Maximum messages that wait for a page. A slower page reconnects, and receives what it missed.
MAX_WAITING = 100


class JobConsumer(RowsConsumer):
    """Send a job's events after the last one that the page knows, then new ones."""

    polling: asyncio.Event | None = None
    sending: asyncio.Task[None] | None = None

    async def is_there(self) -> bool:
        return await Job.objects.filter(pk=self.address["pk"]).aexists()

    async def begin(self) -> None:
        self.waiting: asyncio.Queue[str | int] = asyncio.Queue(MAX_WAITING)
        self.polling = asyncio.Event()
        feed = feeds.JobFeed(
            pk=self.address["pk"],
            after=number_in(self.query_parameter("after")) or 0,
            whole=self.query_parameter("show") == "page",
            can_run=self.can_run,
        )
        # Admission is checked while the tail polls, also before the broadcast has begun.
        await tail.join(tail.job_group(feed.pk), self.polling)
        self.watch_admission()
        await broadcast.join(self, feed, self.language)
        self.sending = asyncio.create_task(self.send_waiting())

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

    async def disconnect(self, code: int) -> None:
        await super().disconnect(code)
        await broadcast.leave(self)
        if self.polling:
            await tail.leave(tail.job_group(self.address["pk"]), self.polling)
        if self.sending:
            self.sending.cancel()


# The socket of a share link's page. It needs no login, follows one object, and ends with its link.


# Sockets of share links that may be open at the same time, so that enough connections are left for others.
MAX_SOCKETS = 200
# The threads for sockets that they use at the same time. Four serve all sockets.
MAX_THREADS = 2
open_sockets: "WeakSet[ShareConsumer]" = WeakSet()
# By event loop: a web process has one.
threads: "WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]" = WeakKeyDictionary()


def own_threads() -> asyncio.Semaphore:
    """Return what limits the threads of this event loop."""
    return threads.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(MAX_THREADS))


class ShareConsumer(FeedConsumer):
    """Notify a page of changes to its object, and close when the link is revoked or expires."""

    link: ShareLink | None = None
    sent_state = ""
    expiring: asyncio.Task[None] | None = None

    async def refusal(self) -> int | None:
        self.language = self.browser_language
        if len(open_sockets) >= MAX_SOCKETS:
            return TRY_AGAIN_LATER
        open_sockets.add(self)
        return None if await self.is_there() else NOT_THERE

    async def is_there(self) -> bool:
        """Return whether the link works."""
        token = str(self.scope["url_route"]["kwargs"]["token"])
        async with own_threads():
            found = await database_sync_to_async(open_link, thread_sensitive=False)(token)
        self.link = self.link or found
        return found is not None

    async def begin(self) -> None:
        assert self.link
        self.expiring = asyncio.create_task(self.end_when_expired(self.link))
        await self.join(tail.share_group(self.link.pk))
        # The link may have been revoked before the group was joined.
        await self.rows_changed({})

    def watch_admission(self) -> None:
        """Do nothing: there is no session. Each change of the link wakes the socket."""

    async def end_when_expired(self, link: ShareLink) -> None:
        """Close the socket at the time at which the link expires."""
        await asyncio.sleep(max(0, (link.expires_at - timezone.now()).total_seconds()))
        await self.end(NOT_THERE)

    async def rows_changed(self, event: dict[str, object]) -> None:
        if not self.has_ended and not await self.is_there():
            await self.end(NOT_THERE)
        await self.send_news()

    async def send_news(self) -> bool:
        async with own_threads():
            return await super().send_news()

    def next_message(self) -> str | None:
        assert self.link
        link = ShareLink.objects.select_related("made_by").filter(pk=self.link.pk).first()
        state = state_of(link) if link else None
        if state is None or state == self.sent_state:
            return None
        self.sent_state = state
        return render_to_string("shared/_state.html", {"state": state, "oob": True})

    async def disconnect(self, code: int) -> None:
        open_sockets.discard(self)
        if self.expiring:
            self.expiring.cancel()
        await super().disconnect(code)

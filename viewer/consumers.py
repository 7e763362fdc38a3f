"""WebSocket consumers: send a page the current state, then each change. A login is required."""

import asyncio
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.http import HttpRequest
from django.utils.translation import get_language_from_request, override

from viewer.access.addresses import number_in
from viewer.access.permissions import can_run
from viewer.live import admission, broadcast, home_feed, job_feed, location_feed, tail, watch
from viewer.live.close_codes import LOGGED_OUT, NOT_THERE, RIGHT_CHANGED, TRY_AGAIN_LATER
from viewer.models import Job, Location
from viewer.models.reader_settings import chosen_language

# Messages that wait for a page. One that is slower reconnects, and receives what it lacks.
MAX_WAITING = 100


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
        """Accept the socket, and close it at once with a reason if it is refused.

        A page cannot find out why a socket was not accepted.
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
        shown = self.asked("may")
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
        """Close the socket. A message that is being rendered is not sent any more."""
        if not self.has_ended:
            self.has_ended = True
            await self.close(code)

    async def disconnect(self, code: int) -> None:
        self.has_ended = True
        admission.unwatch(self)

    def asked(self, name: str) -> str:
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
        """Send what has changed, in the user's language. Return False if nothing has."""
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


class LocationConsumer(FeedConsumer):
    """Notify a page of changes to its location, which is polled while the page is open."""

    location: Location | None = None
    is_watching = False

    async def is_there(self) -> bool:
        found = await Location.objects.filter(uid=self.address["uid"]).afirst()
        # A location removed meanwhile is still needed to stop watching it.
        self.location = self.location or found
        return found is not None

    async def begin(self) -> None:
        assert self.location
        uid = self.address["uid"]
        self.feed = location_feed.feed_for(uid, self.asked("shown").split(","), can_run=self.can_run)
        watch.begin(self.location)
        self.is_watching = True
        await self.join(tail.location_group(uid))

    async def disconnect(self, code: int) -> None:
        if self.location and self.is_watching:
            self.is_watching = False
            watch.end(self.location)
        await super().disconnect(code)

    def next_message(self) -> str | None:
        return location_feed.next_message(self.feed)


class HomeConsumer(FeedConsumer):
    """Notify the home page of changes anywhere. All locations are polled, in turn, while it is open."""

    is_watching = False

    async def is_there(self) -> bool:
        return True

    async def begin(self) -> None:
        self.feed = home_feed.HomeFeed()
        watch.begin_all()
        self.is_watching = True
        await self.join(tail.HOME)

    async def disconnect(self, code: int) -> None:
        if self.is_watching:
            self.is_watching = False
            watch.end_all()
        await super().disconnect(code)

    def next_message(self) -> str | None:
        return home_feed.next_message(self.feed)


class JobConsumer(RowsConsumer):
    """Send a job's events after the last one that the page knows, then new ones."""

    polling: asyncio.Event | None = None
    sending: asyncio.Task[None] | None = None

    async def is_there(self) -> bool:
        return await Job.objects.filter(pk=self.address["pk"]).aexists()

    async def begin(self) -> None:
        self.waiting: asyncio.Queue[str | int] = asyncio.Queue(MAX_WAITING)
        self.polling = asyncio.Event()
        feed = job_feed.JobFeed(
            pk=self.address["pk"],
            after=number_in(self.asked("after")) or 0,
            whole=self.asked("show") == "page",
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
        """Close the socket after the waiting messages; at once if there are too many."""
        if self.waiting.full():
            while not self.waiting.empty():
                self.waiting.get_nowait()
        self.waiting.put_nowait(code)

    async def send_waiting(self) -> None:
        """Send the waiting messages until one of them is the end, or the page has gone."""
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

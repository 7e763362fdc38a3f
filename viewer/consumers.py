"""The sockets: a page is told the present state, then each change. Whoever is not logged in is refused."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.http import HttpRequest
from django.utils.translation import get_language_from_request, override

from viewer.access.addresses import number_in
from viewer.access.permissions import can_run
from viewer.live import admission, job_feed, location_feed, tail, watch
from viewer.models import Job, Location

# Nothing more will come: a page does not ask again.
NORMAL_CLOSURE = 1000
# The job or the location was removed. The other codes are in viewer/live/admission.py.
NOT_THERE = 4404


class NoSuchSocket(AsyncWebsocketConsumer):
    """Any address that is no socket's."""

    async def connect(self) -> None:
        await self.close()


class RowsConsumer(AsyncWebsocketConsumer):
    """Sends what its feed has to tell whenever rows have changed, one message after another."""

    group = ""
    can_run = False
    has_ended = False

    async def connect(self) -> None:
        """Open the socket, or accept it and close it at once with a code that says why.

        A browser tells a page nothing about a socket that was never accepted.
        """
        await self.accept()
        code = await self.refusal()
        if code:
            await self.end(code)
        else:
            await self.begin()

    async def refusal(self) -> int | None:
        """The code to close with. None where the reader may follow what the address names."""
        user = self.scope.get("user")
        if not (user and user.is_authenticated):
            return admission.LOGGED_OUT
        self.can_run = await database_sync_to_async(can_run)(user)
        # A page that was made before the right changed shows other buttons.
        shown = self.asked("may")
        if shown and shown != ("run" if self.can_run else "look"):
            return admission.RIGHT_CHANGED
        return None if await self.is_there() else NOT_THERE

    async def is_there(self) -> bool:
        """Whether what the address names exists."""
        raise NotImplementedError

    async def begin(self) -> None:
        """Make the feed, and join."""
        raise NotImplementedError

    async def join(self, group: str) -> None:
        """Be woken from now on, then tell what is there: in this order, so that nothing falls between."""
        self.group = group
        await tail.join(group, self.channel_name)
        admitted = admission.Admission(
            self.scope["session"].session_key, str(self.scope["user"].pk), self.can_run
        )
        admission.watch(self, admitted)
        await self.tell()

    async def end(self, code: int) -> None:
        """Close the socket. Nothing is sent from here on, even where a message is being made."""
        if not self.has_ended:
            self.has_ended = True
            await self.close(code)

    async def rows_changed(self, event: dict[str, Any]) -> None:
        if not await self.tell() and not self.has_ended and not await self.is_there():
            await self.end(NOT_THERE)

    async def disconnect(self, code: int) -> None:
        self.has_ended = True
        admission.unwatch(self)
        if self.group:
            await tail.leave(self.group, self.channel_name)

    async def tell(self) -> bool:
        """Send everything that the page does not know yet. False where that is nothing."""
        raise NotImplementedError

    async def send_next(self, next_message: Callable[[], str | None]) -> bool:
        """Send the next message, in the reader's language. False where nothing was sent."""
        if self.has_ended:
            return False

        def told() -> str | None:
            with override(self.language):
                return next_message()

        message = await database_sync_to_async(told, thread_sensitive=False)()
        if message is None or self.has_ended:
            return False
        await self.send(text_data=message)
        return True

    def asked(self, name: str) -> str:
        """A parameter of the socket's address; empty where it is not given."""
        query: bytes = self.scope["query_string"]
        return parse_qs(query.decode("latin-1")).get(name, [""])[0]

    @property
    def language(self) -> str:
        """The reader's, found as it is for a page."""
        request = HttpRequest()
        request.COOKIES = self.scope["cookies"]
        accepted: bytes = dict(self.scope["headers"]).get(b"accept-language", b"")
        request.META["HTTP_ACCEPT_LANGUAGE"] = accepted.decode("latin-1")
        return get_language_from_request(request)

    @property
    def address(self) -> dict[str, UUID]:
        """What the route found in the socket's path."""
        return dict(self.scope["url_route"]["kwargs"])


class LocationConsumer(RowsConsumer):
    """Tells a page of a location that it has changed, and has it looked at while the page is open."""

    location: Location | None = None
    is_watching = False

    async def is_there(self) -> bool:
        found = await Location.objects.filter(uid=self.address["uid"]).afirst()
        # What it was when the socket was opened is still needed where it has been removed since.
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

    async def tell(self) -> bool:
        return await self.send_next(lambda: location_feed.next_message(self.feed))


class JobConsumer(RowsConsumer):
    """Replays a job's events after the one that the page knows, then sends those that follow."""

    async def is_there(self) -> bool:
        return await Job.objects.filter(pk=self.address["pk"]).aexists()

    async def begin(self) -> None:
        pk = self.address["pk"]
        self.feed = job_feed.JobFeed(
            pk=pk,
            after=number_in(self.asked("after")) or 0,
            whole=self.asked("show") == "page",
            can_run=self.can_run,
        )
        await self.join(tail.job_group(pk))

    async def tell(self) -> bool:
        is_news = False
        while await self.send_next(lambda: job_feed.next_message(self.feed)):
            is_news = True
            if not self.feed.has_more:
                break
        if self.feed.has_ended:
            await self.end(NORMAL_CLOSURE)
        return is_news

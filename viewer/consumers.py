"""The sockets: a page is told the present state, then each change. Whoever is not logged in is refused."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.http import HttpRequest
from django.utils.translation import get_language_from_request, override

from viewer.addresses import number_in
from viewer.live import job_feed, location_feed, tail, watch
from viewer.models import Job, Location
from viewer.rights import may_run

# Nothing more will come: a page does not ask again.
NORMAL_CLOSURE = 1000


class NoSuchSocket(AsyncWebsocketConsumer):
    """Any address that is no socket's."""

    async def connect(self) -> None:
        await self.close()


class RowsConsumer(AsyncWebsocketConsumer):
    """Sends what its feed has to tell whenever rows have changed, one message after another."""

    group = ""

    async def join(self, group: str) -> None:
        """Be woken from now on, then tell what is there: in this order, so that nothing falls between."""
        await self.accept()
        self.group = group
        await tail.join(group, self.channel_name)
        await self.tell()

    async def rows_changed(self, event: dict[str, Any]) -> None:
        await self.tell()

    async def disconnect(self, code: int) -> None:
        if self.group:
            await tail.leave(self.group, self.channel_name)

    async def tell(self) -> None:
        """Send everything that the page does not know yet."""
        raise NotImplementedError

    async def send_next(self, next_message: Callable[[], str | None]) -> bool:
        """Send the next message, in the reader's language. False where there is none."""

        def told() -> str | None:
            with override(self.language):
                return next_message()

        message = await database_sync_to_async(told, thread_sensitive=False)()
        if message is not None:
            await self.send(text_data=message)
        return message is not None

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
    def is_logged_in(self) -> bool:
        user = self.scope.get("user")
        return bool(user and user.is_authenticated)

    async def may_run(self) -> bool:
        """Whether the reader is shown what only who may run can press."""
        allowed: bool = await database_sync_to_async(may_run)(self.scope["user"])
        return allowed

    @property
    def address(self) -> dict[str, UUID]:
        """What the route found in the socket's path."""
        return dict(self.scope["url_route"]["kwargs"])


class LocationConsumer(RowsConsumer):
    """Tells a page of a location that it has changed, and has it looked at while the page is open."""

    location: Location | None = None

    async def connect(self) -> None:
        uid = self.address["uid"]
        location = await Location.objects.filter(uid=uid).afirst() if self.is_logged_in else None
        if location is None:
            await self.close()
            return
        shown = self.asked("shown").split(",")
        self.feed = location_feed.feed_for(uid, shown, may_run=await self.may_run())
        self.location = location
        watch.begin(location)
        await self.join(tail.location_group(uid))

    async def disconnect(self, code: int) -> None:
        if self.location:
            watch.end(self.location)
        await super().disconnect(code)

    async def tell(self) -> None:
        await self.send_next(lambda: location_feed.next_message(self.feed))


class JobConsumer(RowsConsumer):
    """Replays a job's events after the one that the page knows, then sends those that follow."""

    async def connect(self) -> None:
        pk = self.address["pk"]
        if not (self.is_logged_in and await Job.objects.filter(pk=pk).aexists()):
            await self.close()
            return
        self.feed = job_feed.JobFeed(
            pk=pk,
            after=number_in(self.asked("after")) or 0,
            whole=self.asked("show") == "page",
            may_run=await self.may_run(),
        )
        await self.join(tail.job_group(pk))

    async def tell(self) -> None:
        while await self.send_next(lambda: job_feed.next_message(self.feed)) and self.feed.has_more:
            pass
        if self.feed.has_ended:
            await self.close(NORMAL_CLOSURE)

"""WebSocket consumers: send a page the current state, then each change. A login is required."""

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
from viewer.live import admission, home_feed, job_feed, location_feed, tail, watch
from viewer.models import Job, Location

# Nothing more follows: the page does not reconnect.
NORMAL_CLOSURE = 1000
# The job or the location was removed. The other codes are in viewer/live/admission.py.
NOT_THERE = 4404


class NoSuchSocket(AsyncWebsocketConsumer):
    """Close connections to unknown addresses."""

    async def connect(self) -> None:
        await self.close()


class RowsConsumer(AsyncWebsocketConsumer):
    """Send the messages of a feed whenever rows have changed, one after another."""

    group = ""
    can_run = False
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
            return admission.LOGGED_OUT
        self.can_run = await database_sync_to_async(can_run)(user)
        # A page rendered before the permission changed has the wrong buttons.
        shown = self.asked("may")
        if shown and shown != ("run" if self.can_run else "view"):
            return admission.RIGHT_CHANGED
        return None if await self.is_there() else NOT_THERE

    async def is_there(self) -> bool:
        """Return whether the job or location exists."""
        raise NotImplementedError

    async def begin(self) -> None:
        """Create the feed and join its group."""
        raise NotImplementedError

    async def join(self, group: str) -> None:
        """Join the group, then send the current state. In this order no change is missed."""
        self.group = group
        await tail.join(group, self.channel_name)
        admitted = admission.Admission(
            self.scope["session"].session_key, str(self.scope["user"].pk), self.can_run
        )
        admission.watch(self, admitted)
        await self.send_news()

    async def end(self, code: int) -> None:
        """Close the socket. A message that is being rendered is not sent any more."""
        if not self.has_ended:
            self.has_ended = True
            await self.close(code)

    async def rows_changed(self, event: dict[str, Any]) -> None:
        if not await self.send_news() and not self.has_ended and not await self.is_there():
            await self.end(NOT_THERE)

    async def disconnect(self, code: int) -> None:
        self.has_ended = True
        admission.unwatch(self)
        if self.group:
            await tail.leave(self.group, self.channel_name)

    async def send_news(self) -> bool:
        """Send everything that is new. Return False if nothing is."""
        raise NotImplementedError

    async def send_next(self, next_message: Callable[[], str | None]) -> bool:
        """Send the next message, in the user's language. Return False if there is none."""
        if self.has_ended:
            return False

        def render() -> str | None:
            with override(self.language):
                return next_message()

        message = await database_sync_to_async(render, thread_sensitive=False)()
        if message is None or self.has_ended:
            return False
        await self.send(text_data=message)
        return True

    def asked(self, name: str) -> str:
        """Return a query parameter of the socket's address; empty if it is missing."""
        query: bytes = self.scope["query_string"]
        return parse_qs(query.decode("latin-1")).get(name, [""])[0]

    @property
    def language(self) -> str:
        """The user's language, detected as for a page."""
        request = HttpRequest()
        request.COOKIES = self.scope["cookies"]
        accepted: bytes = dict(self.scope["headers"]).get(b"accept-language", b"")
        request.META["HTTP_ACCEPT_LANGUAGE"] = accepted.decode("latin-1")
        return get_language_from_request(request)

    @property
    def address(self) -> dict[str, UUID]:
        """The parameters of the socket's path."""
        return dict(self.scope["url_route"]["kwargs"])


class LocationConsumer(RowsConsumer):
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

    async def send_news(self) -> bool:
        return await self.send_next(lambda: location_feed.next_message(self.feed))


class HomeConsumer(RowsConsumer):
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

    async def send_news(self) -> bool:
        return await self.send_next(lambda: home_feed.next_message(self.feed))


class JobConsumer(RowsConsumer):
    """Send a job's events after the last one that the page knows, then new ones."""

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

    async def send_news(self) -> bool:
        has_sent = False
        while await self.send_next(lambda: job_feed.next_message(self.feed)):
            has_sent = True
            if not self.feed.has_more:
                break
        if self.feed.has_ended:
            await self.end(NORMAL_CLOSURE)
        return has_sent

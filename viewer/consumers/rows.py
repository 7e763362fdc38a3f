"""What all sockets share: they follow rows, and end with the login or permission of their user."""

from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.http import HttpRequest
from django.utils.translation import get_language_from_request, override

from viewer.access.permissions import can_run
from viewer.live import admission, tail, watch
from viewer.live.close_codes import LOGGED_OUT, NOT_THERE, RIGHT_CHANGED
from viewer.models import Location
from viewer.models.reader_settings import chosen_language


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
    # The key of what is polled while the socket is open.
    watched: int | None = None

    def next_message(self) -> str | None:
        """Return the next message of the feed; None if the page is up to date."""
        raise NotImplementedError

    def watch(self, location: Location | None) -> None:
        """Poll this location, or all locations in turn, while the socket is open."""
        self.watched = watch.begin(location)

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
        if self.watched is not None:
            watch.end(self.watched)
            self.watched = None
        await super().disconnect(code)
        if self.group:
            await tail.leave(self.group, self.channel_name)

"""The socket of a share link's page. It needs no login, follows one object, and ends with its link."""

import asyncio
from weakref import WeakKeyDictionary, WeakSet

from channels.db import database_sync_to_async
from django.template.loader import render_to_string
from django.utils import timezone

from viewer.consumers.rows import FeedConsumer
from viewer.live import tail
from viewer.live.close_codes import NOT_THERE, TRY_AGAIN_LATER
from viewer.models import Location, ShareLink
from viewer.sharing.states import open_link, state_of

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
    location: Location | None = None
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
        if found and self.link is None:
            self.link, self.location = found
        return found is not None

    async def begin(self) -> None:
        assert self.link
        if self.location:
            self.watch(self.location)
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

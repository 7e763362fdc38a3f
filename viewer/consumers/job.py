"""The socket of a page that shows a job."""

import asyncio
from contextlib import suppress

from viewer.access.addresses import number_in
from viewer.consumers.rows import RowsConsumer
from viewer.live import broadcast, job_feed, tail
from viewer.live.close_codes import TRY_AGAIN_LATER
from viewer.models import Job

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
        feed = job_feed.JobFeed(
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

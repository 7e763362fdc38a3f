"""One feed for all sockets that show a job alike: each message is rendered once and sent to all of them."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol
from uuid import UUID
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async
from django.utils.translation import override

from viewer.live import tail
from viewer.live.close_codes import INTERNAL_ERROR, NORMAL_CLOSURE, NOT_THERE
from viewer.live.job_feed import JobFeed, next_message
from viewer.models import Job

logger = logging.getLogger(__name__)

# One thread renders for all broadcasts. Events written in the meantime share the next message, since a
# message costs more than an event in it.
renderer = ThreadPoolExecutor(1, thread_name_prefix="broadcast")


class Socket(Protocol):
    """An open socket. ``send`` waits until the page has received the earlier messages."""

    has_ended: bool

    async def send(self, text_data: str) -> None: ...
    def put(self, message: str) -> None: ...
    def put_end(self, code: int) -> None: ...


class Audience(NamedTuple):
    """The values that are equal for all sockets with the same messages."""

    pk: UUID
    whole: bool
    can_run: bool
    language: str


@dataclass(eq=False)
class Broadcast:
    """The feed of an audience."""

    audience: Audience
    feed: JobFeed
    sockets: set[Socket] = field(default_factory=set)
    # Set when rows have changed.
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    # Held while a message is sent, so that a socket joins between two messages.
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    task: asyncio.Task[None] | None = None


# By event loop: a web process has one.
all_broadcasts: dict[asyncio.AbstractEventLoop, dict[Audience, Broadcast]] = {}


# The first messages that are being rendered, by event loop.
_Rendering = dict[tuple[Audience, int], tuple[asyncio.Future[str | None], JobFeed]]
all_first_messages: WeakKeyDictionary[asyncio.AbstractEventLoop, _Rendering] = WeakKeyDictionary()


def first_messages() -> _Rendering:
    """Return the first messages that are being rendered in the running event loop."""
    return all_first_messages.setdefault(asyncio.get_running_loop(), {})


def broadcasts() -> dict[Audience, Broadcast]:
    """Return the broadcasts of the running event loop."""
    return all_broadcasts.setdefault(asyncio.get_running_loop(), {})


async def join(socket: Socket, feed: JobFeed, language: str) -> None:
    """Send this socket the messages that its page missed, then every message of its audience."""
    audience = Audience(feed.pk, feed.whole, feed.can_run, language)
    first, feed = await shared_first(audience, feed)
    if first and not socket.has_ended:
        await socket.send(first)
    while True:
        while not socket.has_ended and (message := await rendered(partial(next_message, feed), language)):
            await socket.send(message)
        if socket.has_ended:
            return
        if feed.has_ended or feed.sent_state is None:
            socket.put_end(NORMAL_CLOSURE if feed.has_ended else NOT_THERE)
            return
        broadcast = broadcasts().setdefault(audience, Broadcast(audience, feed))
        async with broadcast.lock:
            # It may have ended in the meantime.
            if broadcasts().get(audience) is broadcast:
                await align(broadcast, socket, feed)
                broadcast.sockets.add(socket)
                if broadcast.task is None:
                    await tail.join(tail.job_group(feed.pk), broadcast.changed)
                    broadcast.task = asyncio.create_task(send_repeatedly(broadcast))
                return


async def shared_first(audience: Audience, feed: JobFeed) -> tuple[str | None, JobFeed]:
    """Return the first message to a page, and a separate feed for the messages after it.

    Pages that are opened at the same time share its rendering: it holds all of the job's state.
    """
    key = (audience, feed.after)
    rendering = first_messages()
    if key not in rendering:
        started = asyncio.ensure_future(rendered(partial(next_message, feed), audience.language))
        rendering[key] = (started, feed)
        started.add_done_callback(lambda _done: rendering.pop(key, None))
    running, shared = rendering[key]
    message = await asyncio.shield(running)
    # One job row is enough for all of them, but their progress differs from here on.
    return message, deepcopy(shared, {id(shared.job): shared.job})


async def align(broadcast: Broadcast, socket: Socket, feed: JobFeed) -> None:
    """Advance the broadcast or this feed, whichever is behind, to the event of the other."""
    while broadcast.feed.last < feed.last and await send_next(broadcast):
        pass
    rest = partial(next_message, feed, until=broadcast.feed.last)
    while message := await rendered(rest, broadcast.audience.language):
        socket.put(message)


async def leave(socket: Socket) -> None:
    """Remove a socket. Its broadcast ends with the last one."""
    for broadcast in list(broadcasts().values()):
        broadcast.sockets.discard(socket)
        if not broadcast.sockets and broadcast.task:
            discard(broadcast)
            broadcast.task.cancel()


def discard(broadcast: Broadcast) -> None:
    """Let no more sockets join this broadcast."""
    if broadcasts().get(broadcast.audience) is broadcast:
        del broadcasts()[broadcast.audience]
    if not broadcasts():
        del all_broadcasts[asyncio.get_running_loop()]


async def send_repeatedly(broadcast: Broadcast) -> None:
    """Send each change until the job has ended or is gone."""
    try:
        code = await send_until_end(broadcast)
    except Exception:
        logger.exception("sending the changes of job %s", broadcast.audience.pk)
        code = INTERNAL_ERROR
    finally:
        await tail.leave(tail.job_group(broadcast.audience.pk), broadcast.changed)
    discard(broadcast)
    for socket in broadcast.sockets:
        socket.put_end(code)


async def send_until_end(broadcast: Broadcast) -> int:
    """Return the code to close the sockets with."""
    while True:
        broadcast.changed.clear()
        has_sent = False
        async with broadcast.lock:
            while await send_next(broadcast):
                has_sent = True
        if broadcast.feed.has_ended:
            return NORMAL_CLOSURE
        if not has_sent and not await Job.objects.filter(pk=broadcast.audience.pk).aexists():
            return NOT_THERE
        await broadcast.changed.wait()


async def send_next(broadcast: Broadcast) -> bool:
    """Send the next message to every socket. Return False if there is none."""
    message = await rendered(partial(next_message, broadcast.feed), broadcast.audience.language)
    if message is None:
        return False
    for socket in broadcast.sockets:
        socket.put(message)
    return True


async def rendered(render: Callable[[], str | None], language: str) -> str | None:
    """Call this function in the renderer's thread and in this language. Return its result."""

    def translated() -> str | None:
        with override(language):
            return render()

    message: str | None = await database_sync_to_async(
        translated, thread_sensitive=False, executor=renderer
    )()
    return message

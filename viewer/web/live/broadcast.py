"""One feed for all sockets that show a job alike: each message is encoded once and sent to all of them.

All feeds of a web process are read in rounds, with the same few queries for any number of jobs.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from copy import deepcopy
from functools import partial
from typing import TypeVar
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async
from django.utils.translation import override

from viewer.web.live import tail
from viewer.web.live.admission import INTERNAL_ERROR, NORMAL_CLOSURE, NOT_THERE
from viewer.web.live.feeds import JobFeed, next_message
from viewer.web.live.rounds import Audience, Broadcast, FeedSocket, RoundResult, Rounds, results_of

T = TypeVar("T")

logger = logging.getLogger(__name__)

# After a round, the next one waits for this multiple of its duration: a page of a quiet server receives an
# event at once, and messages of a busy server hold several.
PAUSE_FACTOR = 2
MAX_PAUSE_SECONDS = 0.05

# One thread renders for all broadcasts. Events written in the meantime share the next message, since a
# message costs more than an event in it.
renderer = ThreadPoolExecutor(1, thread_name_prefix="broadcast")


# By event loop: a web process has one.
all_rounds: dict[asyncio.AbstractEventLoop, Rounds] = {}


# The first messages that are being rendered, by event loop.
_Rendering = dict[tuple[Audience, int], tuple[asyncio.Future[str | None], JobFeed]]
all_first_messages: WeakKeyDictionary[asyncio.AbstractEventLoop, _Rendering] = WeakKeyDictionary()


def current_rounds() -> Rounds:
    """Return the rounds of the running event loop."""
    return all_rounds.setdefault(asyncio.get_running_loop(), Rounds())


def broadcasts() -> dict[Audience, Broadcast]:
    """Return the broadcasts of the running event loop."""
    rounds = all_rounds.get(asyncio.get_running_loop())
    return rounds.broadcasts if rounds else {}


async def join(socket: FeedSocket, feed: JobFeed, language: str) -> None:
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
        rounds = current_rounds()
        broadcast = rounds.broadcasts.setdefault(audience, Broadcast(audience, feed))
        async with broadcast.lock:
            # It may have ended in the meantime.
            if broadcasts().get(audience) is broadcast:
                await align(broadcast, socket, feed)
                broadcast.sockets.add(socket)
                await begin(rounds, broadcast)
                return


async def shared_first(audience: Audience, feed: JobFeed) -> tuple[str | None, JobFeed]:
    """Return the first message to a page, and a separate feed for the messages after it.

    Pages that are opened at the same time share its rendering: it holds all of the job's state.
    """
    key = (audience, feed.after)
    rendering = all_first_messages.setdefault(asyncio.get_running_loop(), {})
    if key not in rendering:
        started = asyncio.ensure_future(rendered(partial(next_message, feed), audience.language))
        rendering[key] = (started, feed)
        started.add_done_callback(lambda _done: rendering.pop(key, None))
    running, shared = rendering[key]
    message = await asyncio.shield(running)
    # One job row is enough for all of them, but their progress differs from here on.
    return message, deepcopy(shared, {id(shared.job): shared.job})


async def send_next(broadcast: Broadcast) -> bool:
    """Send the next message to every socket. Return False if there is none."""
    message = await rendered(partial(next_message, broadcast.feed), broadcast.audience.language)
    if message is None:
        return False
    for socket in broadcast.sockets:
        socket.put(message)
    return True


async def align(broadcast: Broadcast, socket: FeedSocket, feed: JobFeed) -> None:
    """Advance the broadcast or this feed, whichever is behind, to the event of the other."""
    while broadcast.feed.last < feed.last and await send_next(broadcast):
        pass
    rest = partial(next_message, feed, until=broadcast.feed.last)
    while message := await rendered(rest, broadcast.audience.language):
        socket.put(message)


async def begin(rounds: Rounds, broadcast: Broadcast) -> None:
    """Send the changes of this broadcast in rounds."""
    if broadcast.has_joined:
        return
    broadcast.has_joined = True
    await tail.join(tail.job_group(broadcast.audience.pk), rounds.changed)
    # Its job may have changed before.
    rounds.changed.set()
    if rounds.task is None:
        rounds.task = asyncio.create_task(send_repeatedly(rounds))


async def leave(socket: FeedSocket) -> None:
    """Remove a socket. Its broadcast ends with the last one."""
    for broadcast in list(broadcasts().values()):
        broadcast.sockets.discard(socket)
        if not broadcast.sockets and broadcast.has_joined:
            await end(current_rounds(), broadcast)


async def end(rounds: Rounds, broadcast: Broadcast, code: int | None = None) -> None:
    """Let no more sockets join this broadcast. Close those it has with this code."""
    if rounds.broadcasts.get(broadcast.audience) is not broadcast:
        return
    del rounds.broadcasts[broadcast.audience]
    if not rounds.broadcasts:
        all_rounds.pop(asyncio.get_running_loop(), None)
        # It ends on its own after the present round.
        if rounds.task and rounds.task is not asyncio.current_task():
            rounds.task.cancel()
    for socket in broadcast.sockets:
        if code is not None:
            socket.put_end(code)
    await tail.leave(tail.job_group(broadcast.audience.pk), rounds.changed)


async def send_repeatedly(rounds: Rounds) -> None:
    """Send the changes of all broadcasts, as long as there are any."""
    while rounds.broadcasts:
        await rounds.changed.wait()
        rounds.changed.clear()
        started_at = time.monotonic()
        await send_round(rounds)
        # Events that are written in the meantime share the next messages.
        await asyncio.sleep(min(PAUSE_FACTOR * (time.monotonic() - started_at), MAX_PAUSE_SECONDS))


async def send_round(rounds: Rounds) -> None:
    """Send the news of each broadcast."""
    async with AsyncExitStack() as held:
        locked = [one for one in rounds.broadcasts.values() if one.has_joined]
        for broadcast in locked:
            await held.enter_async_context(broadcast.lock)
        present = [one for one in locked if rounds.broadcasts.get(one.audience) is one]
        try:
            outcomes = await in_renderer(partial(results_of, rounds, present))
        except Exception:
            logger.exception("reading the changes of jobs")
            outcomes = [RoundResult([], INTERNAL_ERROR)] * len(present)
        for broadcast, outcome in zip(present, outcomes, strict=True):
            for message in outcome.messages:
                for socket in broadcast.sockets:
                    socket.put(message)
            if outcome.code is not None:
                await end(rounds, broadcast, outcome.code)


async def rendered(render: Callable[[], str | None], language: str) -> str | None:
    """Call this function in the renderer's thread and in this language. Return its result."""

    def translated() -> str | None:
        with override(language):
            return render()

    return await in_renderer(translated)


async def in_renderer(function: Callable[[], T]) -> T:
    """Call this function in the renderer's thread. Return its result."""
    result: T = await database_sync_to_async(function, thread_sensitive=False, executor=renderer)()
    return result

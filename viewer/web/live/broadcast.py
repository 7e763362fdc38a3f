"""Send open pages what has changed: each message is encoded once for all pages that show something alike.

A web process polls for commits of any process, and reads what has changed in rounds, with the same few
queries for any number of pages.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, closing
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol, TypeVar
from uuid import UUID

from channels.db import database_sync_to_async
from django.db.models import Max
from django.utils.translation import override

from viewer.data_folder.changes import changes_of_rows
from viewer.models import JobEvent
from viewer.web.live.feeds import INTERNAL_ERROR, JobFeed, RowsFeed, States, changed, job_states

T = TypeVar("T")
Feed = RowsFeed | JobFeed

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.015
# After a round, the next poll waits for this multiple of its duration: a page of a quiet server receives an
# event at once, and messages of a busy server hold several.
PAUSE_FACTOR = 2
MAX_PAUSE_SECONDS = 0.05

# One thread renders for all pages. Events written in the meantime share the next message, since a message
# costs more than an event in it.
renderer = ThreadPoolExecutor(1, thread_name_prefix="broadcast")


class FeedSocket(Protocol):
    """An open socket. ``send`` waits until the page has received the earlier messages."""

    has_ended: bool

    async def send(self, text_data: str) -> None: ...
    def put(self, message: str) -> None: ...
    def put_end(self, code: int) -> None: ...


# What is equal for all sockets with the same messages: the audience of their feeds, and the language.
Key = tuple[Hashable, ...]


@dataclass(eq=False)
class Broadcast:
    """The feed of an audience."""

    key: Key
    feed: Feed
    language: str
    sockets: set[FeedSocket] = field(default_factory=set)
    # Held while a message is sent, so that a socket joins between two messages.
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    # Whether the rounds have read everything up to the last round.
    is_followed: bool = False


@dataclass(eq=False)
class Rounds:
    """The broadcasts of an event loop."""

    broadcasts: dict[Key, Broadcast] = field(default_factory=dict)
    # Whether a broadcast has begun since the last round. Its rows may have changed before.
    has_new: bool = False
    # The key of the last event that a round has read.
    last_event: int = 0
    # The states of other rows at the last round.
    seen: States = field(default_factory=dict)
    task: asyncio.Task[None] | None = None


class RoundResult(NamedTuple):
    """The messages of one broadcast in a round, and the code to close its sockets with, if any."""

    messages: list[str]
    code: int | None = None


# By event loop: a web process has one.
all_rounds: dict[asyncio.AbstractEventLoop, Rounds] = {}
# The first messages that are being rendered, by event loop, audience and start.
all_first_messages: defaultdict[
    asyncio.AbstractEventLoop, dict[Key, tuple[asyncio.Future[str | None], Feed]]
] = defaultdict(dict)


async def join(socket: FeedSocket, feed: Feed, language: str) -> None:
    """Send this socket the messages that its page missed, then every message of its audience."""
    key = (*feed.audience, language)
    first, feed = await shared_first((*key, feed.start), feed, language)
    if first and not socket.has_ended:
        await socket.send(first)
    while not socket.has_ended:
        while message := await rendered(feed.next_message, language):
            if socket.has_ended:
                return
            await socket.send(message)
        if feed.close_code is not None:
            socket.put_end(feed.close_code)
            return
        rounds = all_rounds.setdefault(asyncio.get_running_loop(), Rounds())
        broadcast = rounds.broadcasts.setdefault(key, Broadcast(key, feed, language))
        async with broadcast.lock:
            # It may have ended in the meantime.
            if rounds.broadcasts.get(key) is broadcast:
                await add(rounds, broadcast, socket, feed)
                return


async def shared_first(key: Key, feed: Feed, language: str) -> tuple[str | None, Feed]:
    """Return the first message to a page, and a separate feed for the messages after it.

    Pages that are opened at the same time share its rendering: it holds all that they show.
    """
    rendering = all_first_messages[asyncio.get_running_loop()]
    if key not in rendering:
        started = asyncio.ensure_future(rendered(feed.next_message, language))
        rendering[key] = (started, feed)
        started.add_done_callback(lambda _done: rendering.pop(key, None))
    running, shared = rendering[key]
    message = await asyncio.shield(running)
    # One job row is enough for all of them, but their progress differs from here on.
    job = getattr(shared, "job", None)
    return message, deepcopy(shared, {id(job): job})


async def add(rounds: Rounds, broadcast: Broadcast, socket: FeedSocket, feed: Feed) -> None:
    """Add a socket whose page has received the messages of its own feed."""
    others = list(broadcast.sockets)
    # The broadcast does not end if the others leave meanwhile.
    broadcast.sockets.add(socket)
    try:
        if broadcast.feed is not feed:
            messages, missed = await rendered(partial(broadcast.feed.align, feed), broadcast.language)
            send(messages, others)
            send(missed, [socket])
    except BaseException:
        leave(socket)
        raise
    rounds.has_new |= not broadcast.is_followed
    if rounds.task is None:
        rounds.task = asyncio.create_task(send_repeatedly(rounds))


def send(messages: Sequence[str], sockets: Iterable[FeedSocket]) -> None:
    """Send these messages to these sockets."""
    for message in messages:
        for socket in sockets:
            socket.put(message)


def leave(socket: FeedSocket) -> None:
    """Remove a socket. Its broadcast ends with the last one."""
    rounds = all_rounds.get(asyncio.get_running_loop(), Rounds())
    for broadcast in list(rounds.broadcasts.values()):
        if socket in broadcast.sockets:
            broadcast.sockets.discard(socket)
            if not broadcast.sockets:
                end(rounds, broadcast)


def end(rounds: Rounds, broadcast: Broadcast, code: int | None = None) -> None:
    """Let no more sockets join this broadcast. Close those it has with this code."""
    if rounds.broadcasts.get(broadcast.key) is not broadcast:
        return
    del rounds.broadcasts[broadcast.key]
    if not rounds.broadcasts:
        all_rounds.pop(asyncio.get_running_loop(), None)
        # It ends on its own after the present round.
        if rounds.task and rounds.task is not asyncio.current_task():
            rounds.task.cancel()
    for socket in broadcast.sockets:
        if code is not None:
            socket.put_end(code)


async def send_repeatedly(rounds: Rounds) -> None:
    """Poll for commits about 60 times a second (7 µs each), and send what changed, while pages are open."""
    with closing(changes_of_rows()) as changes:
        while rounds.broadcasts:
            started_at = time.monotonic()
            try:
                if changes.wait() or rounds.has_new:
                    rounds.has_new = False
                    await send_round(rounds)
            except Exception:
                logger.exception("polling for changes")
                rounds.has_new = True
                await asyncio.sleep(1)
            # Events that are written in the meantime share the next messages.
            pause = PAUSE_FACTOR * (time.monotonic() - started_at)
            await asyncio.sleep(min(max(POLL_SECONDS, pause), MAX_PAUSE_SECONDS))


async def send_round(rounds: Rounds) -> None:
    """Send the news of each broadcast."""
    async with AsyncExitStack() as held:
        locked = [one for one in rounds.broadcasts.values() if one.sockets]
        for broadcast in locked:
            await held.enter_async_context(broadcast.lock)
        present = [one for one in locked if rounds.broadcasts.get(one.key) is one]
        try:
            outcomes = await in_renderer(partial(results_of, rounds, present))
        except Exception:
            logger.exception("reading what has changed")
            outcomes = [RoundResult([], INTERNAL_ERROR)] * len(present)
        for broadcast, outcome in zip(present, outcomes, strict=True):
            send(outcome.messages, broadcast.sockets)
            if outcome.code is not None:
                end(rounds, broadcast, outcome.code)


def results_of(rounds: Rounds, broadcasts: Sequence[Broadcast]) -> list[RoundResult]:
    """Return the result of a round for each of these broadcasts. Called in the renderer's thread."""
    jobs = {one.feed.pk for one in broadcasts if isinstance(one.feed, JobFeed)}
    # Read the states first: once a job has ended, all its events are stored.
    states = job_states(jobs) if jobs else {}
    events = new_events(rounds) if jobs else {}
    groups = {one.feed.group for one in broadcasts if isinstance(one.feed, RowsFeed)}
    news = changed(rounds.seen, groups)

    def messages_of(one: Broadcast) -> list[str]:
        feed = one.feed
        if not one.is_followed:
            # What has changed since it was created. From the next round on, the rounds read all of it.
            return list(iter(feed.next_message, None))
        if isinstance(feed, JobFeed):
            return feed.messages_with(states.get(feed.pk), events.get(feed.pk, ()))
        message = feed.next_message() if feed.group in news else None
        return [message] if message else []

    return [result_of(one, partial(messages_of, one)) for one in broadcasts]


def new_events(rounds: Rounds) -> Mapping[UUID, Sequence[JobEvent]]:
    """Return the events of each job since the last round, in order."""
    before = rounds.last_event
    rounds.last_event = JobEvent.objects.aggregate(Max("pk"))["pk__max"] or 0
    found: defaultdict[UUID, list[JobEvent]] = defaultdict(list)
    if any(one.is_followed and isinstance(one.feed, JobFeed) for one in rounds.broadcasts.values()):
        # By key alone, which is fast for any number of jobs. Events of jobs that no page shows are skipped.
        new = JobEvent.objects.filter(pk__gt=before, pk__lte=rounds.last_event).order_by("pk")
        for event in new.iterator(chunk_size=1000):
            found[event.job_id].append(event)
    return found


def result_of(broadcast: Broadcast, messages_of: Callable[[], list[str]]) -> RoundResult:
    """Return the result for one broadcast, in its language."""
    try:
        with override(broadcast.language):
            messages = messages_of()
    except Exception:
        logger.exception("sending the changes of %s", broadcast.key)
        return RoundResult([], INTERNAL_ERROR)
    broadcast.is_followed = True
    return RoundResult(messages, broadcast.feed.close_code)


async def rendered(render: Callable[[], T], language: str) -> T:
    """Call this function in the renderer's thread and in this language. Return its result."""

    def translated() -> T:
        with override(language):
            return render()

    return await in_renderer(translated)


async def in_renderer(function: Callable[[], T]) -> T:
    """Call this function in the renderer's thread. Return its result."""
    result: T = await database_sync_to_async(function, thread_sensitive=False, executor=renderer)()
    return result

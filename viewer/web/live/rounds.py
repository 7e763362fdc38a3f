"""The feeds of a web process, and what a round sends of them. Called in the renderer's thread.

A round reads the news of all feeds with the same few queries for any number of jobs.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from django.db.models import Max
from django.utils.translation import override

from viewer.models import JobEvent
from viewer.web.live.admission import INTERNAL_ERROR, NORMAL_CLOSURE, NOT_THERE
from viewer.web.live.feeds import MAX_EVENTS, JobFeed, News, message_of, next_message, states_of

logger = logging.getLogger(__name__)


class FeedSocket(Protocol):
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
    sockets: set[FeedSocket] = field(default_factory=set)
    # Held while a message is sent, so that a socket joins between two messages.
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    # Whether the tail notifies of its job's changes.
    has_joined: bool = False
    # Whether the rounds have read all its events up to the last round's.
    is_followed: bool = False


@dataclass(eq=False)
class Rounds:
    """The broadcasts of an event loop. Each round reads the news of all of them with two queries."""

    broadcasts: dict[Audience, Broadcast] = field(default_factory=dict)
    # Set when rows of any of them have changed.
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    # The key of the last event that a round has read.
    last_event: int = 0
    task: asyncio.Task[None] | None = None


class RoundResult(NamedTuple):
    """The messages of one broadcast in a round, and the code to close its sockets with, if any."""

    messages: list[str]
    code: int | None = None


def results_of(rounds: Rounds, broadcasts: Sequence[Broadcast]) -> list[RoundResult]:
    """Return the result of a round for each of these broadcasts."""
    # Read the states first: once a job has ended, all its events are stored.
    states = states_of({one.audience.pk for one in broadcasts})
    events = new_events(rounds, any(one.is_followed for one in broadcasts))
    return [outcome_of(one, states.get(one.audience.pk), events) for one in broadcasts]


def new_events(rounds: Rounds, has_followed: bool) -> dict[UUID, list[JobEvent]]:
    """Return the events of each job since the last round, in order."""
    before = rounds.last_event
    rounds.last_event = JobEvent.objects.aggregate(Max("pk"))["pk__max"] or 0
    found: defaultdict[UUID, list[JobEvent]] = defaultdict(list)
    if has_followed:
        # By key alone, which is fast for any number of jobs. Events of jobs that no page shows are skipped.
        new = JobEvent.objects.filter(pk__gt=before, pk__lte=rounds.last_event).order_by("pk")
        for event in new.iterator(chunk_size=1000):
            found[event.job_id].append(event)
    return found


def outcome_of(
    broadcast: Broadcast, state: tuple[Any, ...] | None, events: Mapping[UUID, Sequence[JobEvent]]
) -> RoundResult:
    """Return the outcome for one broadcast, in its language."""
    feed = broadcast.feed
    try:
        with override(broadcast.audience.language):
            if broadcast.is_followed:
                messages = messages_with(feed, state, events.get(feed.pk, ()))
            else:
                # Its events since it was created. From the next round on, the rounds read all of them.
                messages = list(iter(partial(next_message, feed), None))
                broadcast.is_followed = True
    except Exception:
        logger.exception("sending the changes of job %s", feed.pk)
        return RoundResult([], INTERNAL_ERROR)
    if feed.has_ended:
        return RoundResult(messages, NORMAL_CLOSURE)
    return RoundResult(messages, NOT_THERE if state is None else None)


def messages_with(feed: JobFeed, state: tuple[Any, ...] | None, events: Sequence[JobEvent]) -> list[str]:
    """Return the messages with these events, without those that were sent before."""
    new = [event for event in events if event.seq > feed.last]
    messages = []
    while message := message_of(feed, News(state, new[:MAX_EVENTS])):
        messages.append(message)
        new = new[MAX_EVENTS:]
    return messages

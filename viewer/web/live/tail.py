"""Notify the listeners of this web process of changed rows, from whichever process."""

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass, field
from uuid import UUID

from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from django.db.models import Count, Max, Q

from viewer.data_folder.changes import changes_of_rows
from viewer.models import Job, JobEvent, Location
from viewer.presentation.share_links import states_of
from viewer.web.live.feeds import home_state

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.015
# The next poll waits for this multiple of the time that the last one took.
PAUSE_FACTOR = 4
MAX_PAUSE_SECONDS = 0.05
# The message to a consumer. It has no content: the consumer reads the rows.
WAKE = {"type": "rows.changed"}
# The group of the sockets that show the home page.
HOME = "home"
# The state of each group's rows; None if they are gone.
States = dict[str, tuple[object, ...] | None]
# Differs from every state.
UNSEEN = object()


def job_group(pk: UUID) -> str:
    """Return the group of the sockets that show this job."""
    return f"job.{pk}"


def share_group(pk: int) -> str:
    """Return the group of the sockets of this share link."""
    return f"share.{pk}"


def location_group(uid: UUID) -> str:
    """Return the group of the sockets that show this location."""
    return f"location.{uid}"


@dataclass
class Tail:
    """The number of listeners of each group, and the state at the last poll."""

    groups: Counter[str] = field(default_factory=Counter)
    # How often each event has joined a group.
    events: defaultdict[str, Counter[asyncio.Event]] = field(default_factory=lambda: defaultdict(Counter))
    task: asyncio.Task[None] | None = None
    # The number of polls that found commits.
    version: int = 0
    last_event: int | None = None
    # The states at the last poll.
    seen: States = field(default_factory=dict)


# By event loop: a web process has one.
tails: dict[asyncio.AbstractEventLoop, Tail] = {}


async def join(group: str, listener: str | asyncio.Event) -> None:
    """Start notifying this channel, or setting this event, when the group's rows change."""
    tail = tails.setdefault(asyncio.get_running_loop(), Tail())
    if isinstance(listener, asyncio.Event):
        tail.events[group][listener] += 1
    else:
        await get_channel_layer().group_add(group, listener)
    tail.groups[group] += 1
    if tail.task is None:
        tail.task = asyncio.create_task(poll_repeatedly(tail))


async def leave(group: str, listener: str | asyncio.Event) -> None:
    """Stop notifying this listener. The tail ends with the last one."""
    tail = tails.get(asyncio.get_running_loop())
    if isinstance(listener, str):
        await get_channel_layer().group_discard(group, listener)
    elif tail:
        tail.events[group] -= Counter([listener])
    if tail is None or not tail.groups[group]:
        return
    tail.groups[group] -= 1
    tail.groups += Counter()
    if group not in tail.groups:
        tail.seen.pop(group, None)
        tail.events.pop(group, None)
    if not tail.groups and tail.task is not None:
        del tails[asyncio.get_running_loop()]
        tail.task.cancel()


def last_version() -> int | None:
    """Return a number that changes with each commit; None without open sockets in this event loop."""
    tail = tails.get(asyncio.get_running_loop())
    return tail.version if tail else None


async def poll_repeatedly(tail: Tail) -> None:
    """Poll for commits of any process about 60 times a second (7 µs each), and read what changed."""
    has_failed = False
    with closing(changes_of_rows()) as changes:
        while True:
            started_at = time.monotonic()
            try:
                if changes.wait() or has_failed:
                    tail.version += 1
                    has_failed = False
                    await wake_changed(tail)
            except Exception:
                logger.exception("polling for changes")
                has_failed = True
                await asyncio.sleep(1)
            # Commits of a busy server share the next poll.
            pause = PAUSE_FACTOR * (time.monotonic() - started_at)
            await asyncio.sleep(min(max(POLL_SECONDS, pause), MAX_PAUSE_SECONDS))


async def wake_changed(tail: Tail) -> None:
    """Wake the sockets of every group whose rows have changed."""
    layer = get_channel_layer()
    groups = await database_sync_to_async(changed, thread_sensitive=False)(tail, set(tail.groups))
    for group in groups & set(tail.groups):
        for event in tail.events[group]:
            event.set()
        await layer.group_send(group, WAKE)


def changed(tail: Tail, groups: Collection[str]) -> set[str]:
    """Return the groups whose rows differ from the last poll, including new groups."""
    found = with_new_events(tail)
    # None for rows that are gone: they may have been deleted before the first poll.
    present = dict.fromkeys(groups) | states_of_jobs(groups) | states_of_locations(groups)
    links = [group.partition(".")[2] for group in groups if group.startswith("share.")]
    present |= {f"share.{pk}": (state,) for pk, state in states_of(links).items()}
    if HOME in groups:
        present[HOME] = (home_state(),)
    found |= {group for group, state in present.items() if tail.seen.get(group, UNSEEN) != state}
    tail.seen |= present
    return found


def states_of_jobs(groups: Collection[str]) -> States:
    """Return the states of the jobs that exist, by group."""
    jobs = [group.partition(".")[2] for group in groups if group.startswith("job.")]
    fields = ("status", "cancel_requested_at", "limit_hit", "start_at", "became_due_at")
    rows = Job.objects.filter(pk__in=jobs).values_list("pk", *fields)
    return {job_group(pk): tuple(state) for pk, *state in rows}


def states_of_locations(groups: Collection[str]) -> States:
    """Return the states of the locations that exist, by group."""
    locations = [group.partition(".")[2] for group in groups if group.startswith("location.")]
    shown = Location.objects.filter(uid__in=locations).annotate(
        made=Count("jobs"), ended=Count("jobs", filter=Q(jobs__status__in=Job.ENDED))
    )
    rows = shown.values_list("uid", "revision", "made", "ended")
    return {location_group(uid): tuple(state) for uid, *state in rows}


def with_new_events(tail: Tail) -> set[str]:
    """Return the groups of jobs that have new events since the last poll."""
    before = tail.last_event
    tail.last_event = JobEvent.objects.aggregate(Max("pk"))["pk__max"] or 0
    if before is None:
        return set()
    new = JobEvent.objects.filter(pk__gt=before, pk__lte=tail.last_event).order_by()
    return {job_group(pk) for pk in new.values_list("job", flat=True).distinct()}

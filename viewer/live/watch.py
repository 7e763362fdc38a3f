"""Poll a location while a page shows it, so that new checkpoints appear automatically."""

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, field

from channels.db import database_sync_to_async
from django.conf import settings

from viewer.importing import import_location
from viewer.importing.describing import STEP_SECONDS, describe_runs
from viewer.jobs.workers import worker_is_up
from viewer.models import Location

logger = logging.getLogger(__name__)


@dataclass
class Watches:
    """The number of sockets that show each location, and what polls it for all of them."""

    sockets: Counter[int] = field(default_factory=Counter)
    polls: dict[int, asyncio.Task[None]] = field(default_factory=dict)


# The key under which all locations are watched together.
EVERYTHING = 0


# By event loop: a web process has one.
all_watches: dict[asyncio.AbstractEventLoop, Watches] = {}


def begin(location: Location | None) -> int:
    """Add a socket that shows this location, or every location. Return the key with which it is removed."""
    watches = all_watches.setdefault(asyncio.get_running_loop(), Watches())
    key = location.pk if location else EVERYTHING
    watches.sockets[key] += 1
    if key not in watches.polls:
        watches.polls[key] = asyncio.create_task(poll_repeatedly(location) if location else poll_in_turn())
    return key


def end(key: int) -> None:
    """Remove a socket. Polling ends with the last one."""
    loop = asyncio.get_running_loop()
    watches = all_watches.get(loop)
    if watches is None or key not in watches.polls:
        return
    watches.sockets[key] -= 1
    if watches.sockets[key] <= 0:
        del watches.sockets[key]
        watches.polls.pop(key).cancel()
    if not watches.polls:
        del all_watches[loop]


async def poll_repeatedly(location: Location) -> None:
    """Import new checkpoints, wait, and repeat."""
    while True:
        await _poll(location)
        await asyncio.sleep(settings.LOCATION_POLL_MILLISECONDS / 1000)


async def poll_in_turn() -> None:
    """Import new checkpoints of one location after another, with a pause after each, and repeat."""
    while True:
        locations = [location async for location in Location.objects.order_by("pk")]
        for location in locations:
            await _poll(location)
            await asyncio.sleep(settings.LOCATION_POLL_MILLISECONDS / 1000)
        if not locations:
            await asyncio.sleep(settings.LOCATION_POLL_MILLISECONDS / 1000)


async def _poll(location: Location) -> None:
    try:
        await database_sync_to_async(_import, thread_sensitive=False)(location)
    except Exception:
        logger.exception("polling %s for new checkpoints", location)


def _import(location: Location) -> None:
    """Import new checkpoints. A worker, if one runs, imports large numbers and describes runs."""
    location.refresh_if_exists()
    has_worker = worker_is_up()
    if location.import_state != Location.ImportState.REQUESTED or not has_worker:
        import_location(location, wait=False)
    if not has_worker:
        describe_runs(location, max_seconds=STEP_SECONDS)

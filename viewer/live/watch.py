"""Looks at a location again and again while a page shows it, so that new checkpoints appear by themselves."""

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, field

from channels.db import database_sync_to_async
from django.conf import settings

from viewer.importing import import_location
from viewer.models import Location

logger = logging.getLogger(__name__)


@dataclass
class Watches:
    """How many sockets show each location, and the one task that looks at it for all of them."""

    sockets: Counter[int] = field(default_factory=Counter)
    tasks: dict[int, asyncio.Task[None]] = field(default_factory=dict)


# One for each event loop: a web process has one.
all_watches: dict[asyncio.AbstractEventLoop, Watches] = {}


def begin(location: Location) -> None:
    """One more socket shows this location."""
    watches = all_watches.setdefault(asyncio.get_running_loop(), Watches())
    watches.sockets[location.pk] += 1
    if location.pk not in watches.tasks:
        watches.tasks[location.pk] = asyncio.create_task(keep_looking(location))


def end(location: Location) -> None:
    """One fewer does; with the last one the looking ends."""
    loop = asyncio.get_running_loop()
    watches = all_watches.get(loop)
    if watches is None or location.pk not in watches.tasks:
        return
    watches.sockets[location.pk] -= 1
    if watches.sockets[location.pk] <= 0:
        del watches.sockets[location.pk]
        watches.tasks.pop(location.pk).cancel()
    if not watches.tasks:
        del all_watches[loop]


async def keep_looking(location: Location) -> None:
    """Import what is new, wait, and look again."""
    look = database_sync_to_async(import_location, thread_sensitive=False)
    while True:
        try:
            await look(location)
        except Exception:
            logger.exception("looking at %s for new checkpoints", location)
        await asyncio.sleep(settings.LOCATION_POLL_MILLISECONDS / 1000)

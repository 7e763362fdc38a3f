"""Poll a location while a page shows it, so that new checkpoints appear automatically."""

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
    """The number of sockets that show each location, and the task that polls it for all of them."""

    sockets: Counter[int] = field(default_factory=Counter)
    tasks: dict[int, asyncio.Task[None]] = field(default_factory=dict)


# By event loop: a web process has one.
all_watches: dict[asyncio.AbstractEventLoop, Watches] = {}


def begin(location: Location) -> None:
    """Add a socket that shows this location."""
    watches = all_watches.setdefault(asyncio.get_running_loop(), Watches())
    watches.sockets[location.pk] += 1
    if location.pk not in watches.tasks:
        watches.tasks[location.pk] = asyncio.create_task(poll_repeatedly(location))


def end(location: Location) -> None:
    """Remove a socket. Polling ends with the last one."""
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


async def poll_repeatedly(location: Location) -> None:
    """Import what is new, wait, and repeat."""
    poll = database_sync_to_async(import_location, thread_sensitive=False)
    while True:
        try:
            await poll(location)
        except Exception:
            logger.exception("polling %s for new checkpoints", location)
        await asyncio.sleep(settings.LOCATION_POLL_MILLISECONDS / 1000)

"""Shows each person who else has a run open.

A web server knows this from its own sockets. Servers that share a database also store it as rows, which each
of them renews in one transaction and reads at most every few seconds, while somebody has a run open.
"""

import asyncio
import logging
import time
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple, Protocol

from channels.db import database_sync_to_async
from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.template.loader import render_to_string
from django.utils.translation import override

from viewer.models import Presence

logger = logging.getLogger(__name__)

# A page that is reloaded leaves and enters again within this time, so nobody is told.
PAUSE_SECONDS = 1.0
# How often the rows of other servers are read, and the own ones renewed.
READ_SECONDS, RENEW_SECONDS = 5.0, 20.0
# After this time, a row is that of a server that has ended.
EXPIRY = timedelta(seconds=60)
# Names that are shown; of the others, only their number.
MAX_NAMES = 3
# This web server, in the rows.
SERVER = uuid.uuid4()


class Visitor(NamedTuple):
    """A person with a run open, and the language of the page."""

    run: uuid.UUID
    user: int
    name: str
    language: str


class PageSocket(Protocol):
    """An open socket of a page."""

    def put(self, message: str) -> None: ...


# Names by the keys of accounts.
People = dict[int, str]
# The names to show, and how many more there are.
Names = tuple[tuple[str, ...], int]


@dataclass(eq=False)
class Room:
    """The open pages of runs of an event loop, and what each of them shows."""

    visitors: dict[PageSocket, Visitor] = field(default_factory=dict)
    shown: dict[PageSocket, Names] = field(default_factory=dict)
    # The people on other servers by run, and when the own rows were renewed.
    elsewhere: dict[uuid.UUID, People] = field(default_factory=dict)
    stored: frozenset[tuple[uuid.UUID, int]] = frozenset()
    renewed_at: float = float("-inf")
    has_changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


# By event loop: a web process has one.
rooms: dict[asyncio.AbstractEventLoop, Room] = {}


def enter(socket: PageSocket, visitor: Visitor) -> None:
    """Show others that a person has opened a run, and the person who else has."""
    room = rooms.setdefault(asyncio.get_running_loop(), Room())
    room.visitors[socket] = visitor
    room.has_changed.set()
    if room.task is None:
        room.task = asyncio.create_task(keep_showing(room))


def leave(socket: PageSocket) -> None:
    """Show others that a page was closed."""
    room = rooms.get(asyncio.get_running_loop())
    if room is None or room.visitors.pop(socket, None) is None:
        return
    room.shown.pop(socket, None)
    room.has_changed.set()


async def keep_showing(room: Room) -> None:
    """Send each page who else has its run open, whenever that changes, until no page is open."""
    while room.visitors or room.stored:
        try:
            if settings.IS_DATABASE_SHARED:
                with suppress(TimeoutError):
                    await asyncio.wait_for(room.has_changed.wait(), READ_SECONDS)
                room.has_changed.clear()
                await database_sync_to_async(exchange, thread_sensitive=False)(room)
            else:
                await room.has_changed.wait()
                room.has_changed.clear()
            show(room)
        except Exception:
            logger.exception("showing who has a run open")
        await asyncio.sleep(PAUSE_SECONDS)
    room.task = None
    rooms.pop(asyncio.get_running_loop(), None)


def show(room: Room) -> None:
    """Send each page the names that it does not show yet."""
    here: defaultdict[uuid.UUID, People] = defaultdict(dict)
    for visitor in room.visitors.values():
        here[visitor.run][visitor.user] = visitor.name
    messages: dict[tuple[str, Names], str] = {}
    for socket, visitor in room.visitors.items():
        people = {**room.elsewhere.get(visitor.run, {}), **here[visitor.run]}
        names = names_of(name for user, name in people.items() if user != visitor.user)
        if room.shown.get(socket) == names:
            continue
        room.shown[socket] = names
        key = visitor.language, names
        messages[key] = messages.get(key) or message_with(*names, visitor.language)
        socket.put(messages[key])


def names_of(people: Iterable[str]) -> Names:
    """Return the names to show, and how many more there are."""
    names = sorted(people)
    shown = names if len(names) <= MAX_NAMES + 1 else names[:MAX_NAMES]
    return tuple(shown), len(names) - len(shown)


def message_with(names: tuple[str, ...], more: int, language: str) -> str:
    """Return the fragment that shows these names."""
    with override(language):
        return render_to_string("live/_present.html", {"names": names, "more": more})


def exchange(room: Room) -> None:
    """Store who has a run open here, if that has changed or is due, and read who has it open elsewhere."""
    here = frozenset((one.run, one.user) for one in list(room.visitors.values()))
    if here != room.stored or time.monotonic() - room.renewed_at > RENEW_SECONDS:
        store(here)
        room.stored, room.renewed_at = here, time.monotonic()
    room.elsewhere = people_elsewhere({run for run, _user in here})


@transaction.atomic
def store(here: Collection[tuple[uuid.UUID, int]]) -> None:
    """Make these the rows of this server, and delete those of servers that have ended."""
    own = Presence.objects.filter(server=SERVER).values_list("pk", "run_uid", "user_id")
    gone = [pk for pk, run, user in own if (run, user) not in here]
    Presence.objects.filter(Q(pk__in=gone) | Q(seen_at__lt=Now() - EXPIRY)).delete()
    Presence.objects.bulk_create(
        # The clocks of the servers may differ.
        [Presence(run_uid=run, user_id=user, server=SERVER, seen_at=Now()) for run, user in sorted(here)],
        update_conflicts=True,
        unique_fields=["run_uid", "user", "server"],
        update_fields=["seen_at"],
    )


def people_elsewhere(runs: Collection[uuid.UUID]) -> dict[uuid.UUID, People]:
    """Return the people who have these runs open on other servers."""
    found: defaultdict[uuid.UUID, People] = defaultdict(dict)
    rows = Presence.objects.filter(run_uid__in=runs, seen_at__gte=Now() - EXPIRY).exclude(server=SERVER)
    for run, user, name in rows.values_list("run_uid", "user_id", "user__username"):
        found[run][user] = name
    return dict(found)

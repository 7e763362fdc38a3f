"""Who else has a run open: for people who may see it, once each, and without a cost while nobody looks."""

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.conf import LazySettings, settings
from django.db import connection
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.live.conftest import Connect, connect, cookie, location
from tests.sharing.conftest import share
from viewer.models import Level, Location, Presence, Role, Run
from viewer.records.accounts import teammate
from viewer.records.permissions import account_named
from viewer.web.live import consumer
from viewer.web.live.consumer import (
    Room,
    Visitor,
    exchange_presence,
    names_of,
    presence_message,
    rooms,
    show_names,
)

__all__ = ["connect", "cookie", "location"]
Enter = Callable[..., Awaitable[WebsocketCommunicator]]
NAME = re.compile(r'class="present-name">([^<,]*),?<')


@pytest.fixture
def run(location: Location) -> Run:
    return Run.objects.create(location=location, key="one", entity="crew", name="tea")


def cookie_of(name: str) -> str:
    """Return the session of a person who sees every location."""
    client = Client()
    client.force_login(teammate(name))
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"


@pytest.fixture
async def enter(connect: Connect, run: Run, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Enter]:
    """Return a function that opens the run in a browser of a person."""
    monkeypatch.setattr(consumer, "PAUSE_SECONDS", 0.01)

    async def opened(name: str, *, of: uuid.UUID = run.uid, as_cookie: str = "") -> WebsocketCommunicator:
        session = as_cookie or await sync_to_async(cookie_of)(name)
        socket = connect(f"/ws/locations/{run.location.uid}/?run={of}", as_cookie=session)
        await socket.connect()
        return socket

    yield opened
    for room in list(rooms.values()):
        room.visitors.clear()
        room.has_changed.set()


async def names_on(socket: WebsocketCommunicator) -> list[str]:
    """Return the names in the next message about who is there."""
    while 'id="present"' not in (message := await socket.receive_from()):
        pass
    return NAME.findall(message)


async def test_people_see_each_other_but_not_themselves(enter: Enter) -> None:
    ada = await enter("ada")
    assert await names_on(ada) == []
    eve = await enter("eve")
    assert await names_on(eve) == ["ada"]
    assert await names_on(ada) == ["eve"]
    # Another page of the same person is not somebody else.
    again = await enter("eve")
    assert await names_on(again) == ["ada"]
    await eve.disconnect()
    await again.disconnect()
    assert await names_on(ada) == []
    assert not await Presence.objects.aexists()


async def test_nobody_enters_a_run_of_another_team(enter: Enter, run: Run, tmp_path: object) -> None:
    other = await Location.objects.acreate(path=f"{tmp_path}/other", store_kind="json")
    hidden = await Run.objects.acreate(location=other, key="two", entity="crew", name="hidden")
    user = await sync_to_async(account_named)("otto")
    await Role.objects.acreate(user=user, location=run.location, level=Level.VIEWER)
    client = Client()
    await sync_to_async(client.force_login)(user)
    session = f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
    for uid in (hidden.uid, uuid.uuid4()):
        socket = await enter("otto", of=uid, as_cookie=session)
        assert "location-revision" in await socket.receive_from()
        assert uid not in {one.run for room in rooms.values() for one in room.visitors.values()}


async def test_a_person_who_is_logged_out_is_no_longer_shown(enter: Enter) -> None:
    ada, eve = await enter("ada"), await enter("eve")
    assert await names_on(eve) == ["ada"]
    user = await sync_to_async(teammate)("ada")
    user.is_active = False
    await user.asave()
    assert await names_on(eve) == []
    del ada


async def test_a_visitor_of_a_share_link_sees_nobody_and_is_nobody(
    enter: Enter, connect: Connect, run: Run
) -> None:
    ada = await enter("ada")
    assert await names_on(ada) == []
    address = await sync_to_async(share)("run", str(run.uid))
    socket = connect(f"/ws{address}?run={run.uid}", as_cookie=await sync_to_async(cookie_of)("eve"))
    await socket.connect()
    assert "present" not in await socket.receive_from()
    assert await socket.receive_nothing() and await ada.receive_nothing()


async def test_on_one_server_nothing_is_queried(enter: Enter, run: Run) -> None:
    await names_on(await enter("ada"))
    room = rooms[asyncio.get_running_loop()]

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            show_names(room)
        return len(captured)

    assert await sync_to_async(queries)() == 0


async def test_nothing_runs_once_the_last_page_is_closed(enter: Enter) -> None:
    ada = await enter("ada")
    await names_on(ada)
    await ada.disconnect()
    for _step in range(500):
        if asyncio.get_running_loop() not in rooms:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it goes on")


def room_of(*names: str, run: Run) -> Room:
    """Return what another web server knows."""
    room = Room()
    for name in names:
        room.visitors[object()] = Visitor(run.uid, teammate(name).pk, name, "en")  # type: ignore[index]
    return room


def test_servers_that_share_a_database_see_each_others_people(
    db: None, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    rooms = [room_of("ada", "bob", run=run), room_of("eve", run=run)]
    servers = [uuid.uuid4(), uuid.uuid4()]

    def at(server: int) -> dict[int, str]:
        monkeypatch.setattr(consumer, "SERVER", servers[server])
        exchange_presence(rooms[server])
        return rooms[server].elsewhere.get(run.uid, {})

    assert at(0) == {}
    assert set(at(1).values()) == {"ada", "bob"}
    assert set(at(0).values()) == {"eve"}
    # Somebody leaves.
    rooms[0].visitors.popitem()
    at(0)
    assert set(at(1).values()) == {"ada"}
    # A server ends without a word.
    Presence.objects.filter(server=servers[0]).update(seen_at=Now() - timedelta(seconds=61))
    assert at(1) == {}
    rooms[1].visitors.clear()
    at(1)
    assert not Presence.objects.filter(server=servers[1]).exists()


def test_rows_are_written_only_for_changes_and_when_they_are_due(
    db: None, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = room_of("ada", run=run)
    exchange_presence(room)

    def written() -> int:
        with CaptureQueriesContext(connection) as captured:
            exchange_presence(room)
        return sum(not one["sql"].lstrip().startswith("SELECT") for one in captured)

    assert written() == 0
    seen = Presence.objects.get().seen_at
    monkeypatch.setattr(consumer, "RENEW_SECONDS", -1)
    assert written() > 0 and Presence.objects.count() == 1 and Presence.objects.get().seen_at >= seen


def test_names_are_escaped_and_few() -> None:
    assert names_of(["d", "c", "b", "a"]) == (("a", "b", "c", "d"), 0)
    assert names_of("edcba") == (("a", "b", "c"), 2)
    message = presence_message(("<b>", "eve"), 2, "en")
    assert "&lt;b&gt;" in message and "and 2 more" in message
    assert NAME.search(presence_message((), 0, "en")) is None


def test_the_page_of_one_person_alone_has_no_place_for_names(
    client: Client, run: Run, settings: LazySettings
) -> None:
    client.force_login(teammate("ada"))
    assert 'id="present"' not in client.get(run.get_absolute_url()).content.decode()
    teammate("eve")
    page = client.get(run.get_absolute_url()).content.decode()
    assert f'id="present" data-run="{run.uid}"' in page
    stranger = Client(headers={"User-Agent": "Mozilla/5.0 Firefox/140.0"})
    assert 'id="present"' not in stranger.get(share("run", str(run.uid))).content.decode()

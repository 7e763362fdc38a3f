"""The socket of a location reports changes and new runs."""

import asyncio
import re
from pathlib import Path

from tests.live.conftest import Connect
from tests.real_stores import write_checkpoint
from viewer.host.locations.observing import observing_locations
from viewer.models import Job, Location
from viewer.web.live.broadcast import all_rounds

REVISION = re.compile(r'data-revision="(\d+)"')


async def test_the_current_revision_is_sent_first_and_each_new_one_follows(
    connect: Connect, location: Location
) -> None:
    socket = connect(f"/ws/locations/{location.uid}/")
    await socket.connect()
    assert REVISION.findall(await socket.receive_from()) == ["0"]
    for revision in (1, 5):
        await Location.objects.filter(pk=location.pk).aupdate(revision=revision)
        assert REVISION.findall(await socket.receive_from(timeout=30)) == [str(revision)]


async def test_the_bar_of_a_new_run_is_sent_once(connect: Connect, location: Location) -> None:
    shown = await Job.objects.acreate(kind="fork", location=location, branch="shown")
    socket = connect(f"/ws/locations/{location.uid}/?shown={shown.pk}")
    await socket.connect()
    assert "job-bar" not in await socket.receive_from()
    began = await Job.objects.acreate(kind="resume", location=location, branch="main")
    message = await socket.receive_from(timeout=30)
    assert re.findall(r'data-job-bar="([^"]+)"', message) == [str(began.pk)]
    await Job.objects.filter(pk=began.pk).aupdate(status=Job.Status.RUNNING)
    await Location.objects.filter(pk=location.pk).aupdate(revision=1)
    assert "job-bar" not in await socket.receive_from(timeout=30)


async def test_changes_of_other_locations_are_not_sent(
    connect: Connect, location: Location, tmp_path: Path
) -> None:
    other = await Location.objects.acreate(path=str(tmp_path / "other"), store_kind="json")
    socket = connect(f"/ws/locations/{location.uid}/")
    await socket.connect()
    await socket.receive_from()
    await Location.objects.filter(pk=other.pk).aupdate(revision=7)
    assert await socket.receive_nothing(timeout=0.3)


async def test_nothing_is_polled_after_the_last_page_closes(connect: Connect, location: Location) -> None:
    sockets = [connect(f"/ws/locations/{location.uid}/") for _ in range(2)]
    for socket in sockets:
        await socket.connect()
        await socket.receive_from()
    loop = asyncio.get_running_loop()
    # A page receives its first message before it joins the others.
    async with asyncio.timeout(30):
        while sum(len(one.sockets) for one in all_rounds[loop].broadcasts.values()) < 2:
            await asyncio.sleep(0)
    await sockets[0].disconnect()
    assert loop in all_rounds
    await sockets[1].disconnect()
    assert loop not in all_rounds


async def test_an_open_page_is_notified_of_a_new_checkpoint(connect: Connect, location: Location) -> None:
    socket = connect(f"/ws/locations/{location.uid}/")
    await socket.connect()
    assert REVISION.findall(await socket.receive_from()) == ["0"]
    with observing_locations():
        write_checkpoint(Path(location.path), "20261121T001329_8069945e")
        # A half-written file may have been seen first, which is also a change.
        async with asyncio.timeout(60):
            while not await location.checkpoints.aexists():
                assert REVISION.findall(await socket.receive_from(timeout=30)) != ["0"]

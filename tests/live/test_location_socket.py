"""The socket of a location reports changes and new runs, and the location is watched while it is open."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from pytest_django import Settings

from tests.live.conftest import Connect
from viewer.models import Job, Location
from viewer.web.live.tail import all_watches, tails

CHECKPOINT: dict[str, object] = {
    "crewai_version": "1.15.30",
    "branch": "main",
    "parent_id": None,
    "entities": [{"entity_type": "crew", "id": "1", "name": "article", "tasks": [], "agents": []}],
    "event_record": {"nodes": {}},
}
REVISION = re.compile(r'data-revision="(\d+)"')


@pytest.fixture(autouse=True)
def rare_polls(settings: Settings) -> None:
    """Poll files rarely, so that only the test triggers an import."""
    settings.LOCATION_POLL_MILLISECONDS = 60_000


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


async def test_the_location_is_not_polled_after_its_last_page_closes(
    connect: Connect, location: Location
) -> None:
    sockets = [connect(f"/ws/locations/{location.uid}/") for _ in range(2)]
    for socket in sockets:
        await socket.connect()
        await socket.receive_from()
    loop = asyncio.get_running_loop()
    assert list(all_watches[loop].polls) == [location.pk]
    await sockets[0].disconnect()
    assert loop in tails
    assert loop in all_watches
    await sockets[1].disconnect()
    assert loop not in tails
    assert loop not in all_watches


async def test_an_open_page_is_notified_of_a_new_checkpoint(
    connect: Connect, location: Location, settings: Settings
) -> None:
    # It shows within two seconds, which is measured but not tested.
    settings.LOCATION_POLL_MILLISECONDS = 1000
    socket = connect(f"/ws/locations/{location.uid}/")
    await socket.connect()
    assert REVISION.findall(await socket.receive_from()) == ["0"]
    folder = Path(location.path) / "main"
    folder.mkdir()
    (folder / "20261121T001329_8069945e_p-none.json").write_text(json.dumps(CHECKPOINT))
    # A half-written file may have been seen first, which is also a change.
    async with asyncio.timeout(60):
        while not await location.checkpoints.aexists():
            assert REVISION.findall(await socket.receive_from(timeout=30)) != ["0"]

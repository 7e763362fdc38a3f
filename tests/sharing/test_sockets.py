"""The socket of a share link follows its object only, and closes when the link ends."""

from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.utils import timezone

from checkpoint_site.middleware import throttle
from tests.live.conftest import Connect, connect, cookie, event, job, location
from tests.sharing.conftest import share, token_of
from viewer.models import Job, Location, ShareLink
from viewer.web.live.feeds import LOGGED_OUT, NOT_THERE, TRY_AGAIN_LATER

__all__ = ["connect", "cookie", "job", "location"]


@pytest.fixture
def socket(job: Job) -> str:
    """Return the address of the socket of a link to a job."""
    return f"/ws{share('job', str(job.pk))}"


async def closed_with(opened: object) -> int:
    """Return the code that the next message closes the socket with."""
    message = await opened.receive_output()  # type: ignore[attr-defined]
    assert message["type"] == "websocket.close", message
    return int(message["code"])


async def test_a_page_is_notified_of_its_own_job_only(
    connect: Connect, socket: str, job: Job, location: Location
) -> None:
    opened = connect(socket, as_cookie="")
    await opened.connect()
    first = await opened.receive_from()
    assert "location-revision" in first and "job" not in first and str(location.path) not in first
    other = await Job.objects.acreate(kind="fork", location=location, status=Job.Status.RUNNING)
    await event(other, 1).asave()
    await event(job, 1).asave()
    assert await opened.receive_from() != first


@pytest.mark.parametrize("change", ["revoked", "expired", "maker", "removed"])
async def test_an_open_socket_closes_when_its_link_ends(
    connect: Connect, socket: str, job: Job, change: str
) -> None:
    opened = connect(socket, as_cookie="")
    await opened.connect()
    await opened.receive_from()
    if change == "revoked":
        await sync_to_async((await ShareLink.objects.aget()).revoke)()
    elif change == "expired":
        await ShareLink.objects.aupdate(expires_at=timezone.now())
    elif change == "maker":
        await User.objects.filter(username="maker").aupdate(is_active=False)
    else:
        await Job.objects.filter(pk=job.pk).adelete()
    assert await closed_with(opened) == NOT_THERE


async def test_a_socket_closes_at_the_time_at_which_its_link_expires(connect: Connect, socket: str) -> None:
    await ShareLink.objects.aupdate(expires_at=timezone.now() + timedelta(seconds=1))
    opened = connect(socket, as_cookie="")
    await opened.connect()
    await opened.receive_from()
    assert await closed_with(opened) == NOT_THERE


async def test_a_token_opens_no_other_socket(
    connect: Connect, socket: str, job: Job, location: Location
) -> None:
    token = token_of(socket.removeprefix("/ws"))
    for address in (f"/ws/jobs/{job.pk}/", f"/ws/locations/{location.uid}/", "/ws/home/"):
        opened = connect(f"{address}?token={token}", as_cookie=f"forkline_viewed_8000={token}")
        await opened.connect()
        assert await closed_with(opened) == LOGGED_OUT, address
    for wrong in (f"/ws/shared/{token[:-1]}/", f"/ws/shared/{job.pk}/", f"/ws/shared/{location.uid}/"):
        opened = connect(wrong)
        await opened.connect()
        assert await closed_with(opened) == NOT_THERE, wrong


async def test_guessed_sockets_are_limited_and_those_of_links_that_work_are_not(
    connect: Connect, socket: str
) -> None:
    attempts = throttle.BUDGETS["share"].amount
    for number in range(attempts + 2):
        # Channels ignores slashes at the start. The test client takes three for the mark of no host.
        slashes = "///" + "/" * (number % 3)
        opened = connect(f"{slashes}/ws/shared/guess-{number}/", as_cookie="")
        await opened.connect()
        assert await closed_with(opened) == (NOT_THERE if number < attempts else TRY_AGAIN_LATER)
    opened = connect(socket, as_cookie="")
    await opened.connect()
    assert "location-revision" in await opened.receive_from()


async def test_a_socket_of_another_site_is_refused(connect: Connect, socket: str) -> None:
    accepted, _code = await connect(socket, origin="https://evil.example").connect()
    assert not accepted


async def test_sockets_of_share_links_leave_connections_for_others(
    connect: Connect, socket: str, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("viewer.web.live.consumer.MAX_SOCKETS", 3)
    first, *others = [connect(socket, as_cookie="") for _ in range(3)]
    for opened in (first, *others):
        await opened.connect()
        assert "location-revision" in await opened.receive_from()
    one_more = connect(socket, as_cookie="")
    await one_more.connect()
    assert await closed_with(one_more) == TRY_AGAIN_LATER
    own = connect(f"/ws/jobs/{job.pk}/")
    await own.connect()
    assert await own.receive_from()
    await first.disconnect()
    again = connect(socket, as_cookie="")
    await again.connect()
    assert "location-revision" in await again.receive_from()

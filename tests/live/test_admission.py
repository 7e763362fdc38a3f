"""Open sockets close when their session, their user or the right expires or is revoked."""

import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from tests.environments import environment_with
from tests.jobs.conftest import ROOT
from tests.live.conftest import Connect, event
from tests.views.forking import create_location
from viewer.models import Job, Level, Location, Role, Team
from viewer.records.accounts import teammate
from viewer.web.live import consumer
from viewer.web.live.consumer import CHECK_SECONDS, Guard, allowed_by, guards
from viewer.web.live.feeds import LOGGED_OUT, NOT_THERE, RIGHT_CHANGED

# The first check after an end may have read before it.
MAX_CHECKS = 2


def log_out() -> None:
    client = Client()
    client.cookies[settings.SESSION_COOKIE_NAME] = Session.objects.get().session_key
    assert client.post(reverse("logout")).status_code == 302


def deactivate() -> None:
    User.objects.update(is_active=False)


def change_password() -> None:
    user = User.objects.get()
    user.set_password("another")
    user.save()


def delete_session() -> None:
    Session.objects.all().delete()


def delete_user() -> None:
    User.objects.all().delete()


def log_in_as_another() -> None:
    client = Client()
    client.cookies[settings.SESSION_COOKIE_NAME] = Session.objects.get().session_key
    client.force_login(teammate("another", "run"))


def deactivate_elsewhere() -> None:
    shell = "from django.contrib.auth.models import User; User.objects.update(is_active=False)"
    elsewhere("shell", "-c", shell)


def expire_session() -> None:
    Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))


def revoke_right() -> None:
    teammate("runner", "view")


def revoke_right_elsewhere() -> None:
    elsewhere("login_link", "runner", "--may", "view")


def elsewhere(*command: str) -> None:
    """Run a command of manage.py in another process, on this test's database."""
    environment = environment_with()
    subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=ROOT,
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )


ENDS: dict[Callable[[], None], int] = {
    log_out: LOGGED_OUT,
    deactivate: LOGGED_OUT,
    change_password: LOGGED_OUT,
    delete_session: LOGGED_OUT,
    delete_user: LOGGED_OUT,
    log_in_as_another: LOGGED_OUT,
    deactivate_elsewhere: LOGGED_OUT,
    expire_session: LOGGED_OUT,
    revoke_right: RIGHT_CHANGED,
    revoke_right_elsewhere: RIGHT_CHANGED,
}


async def opened(connect: Connect, job: Job) -> list[WebsocketCommunicator]:
    """Open a socket of each kind and receive its first messages."""
    sockets = await connected(connect, job)
    for socket in sockets:
        await socket.receive_from(timeout=30)
    return sockets


async def close_of(socket: WebsocketCommunicator) -> int:
    """Return the code that the socket is closed with, after any messages."""
    while (output := await socket.receive_output(timeout=30))["type"] == "websocket.send":
        pass
    return int(output["code"])


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[Guard]:
    """Return a list to which each check of the sockets is added when it begins."""
    began, check = list[Guard](), consumer.check_sessions

    async def check_and_note(guard: Guard) -> None:
        began.append(guard)
        await check(guard)

    monkeypatch.setattr(consumer, "check_sessions", check_and_note)
    return began


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
async def test_every_socket_closes_within_a_second(
    connect: Connect, job: Job, checks: list[Guard], end: Callable[[], None]
) -> None:
    sockets = await opened(connect, job)
    await sync_to_async(end, thread_sensitive=False)()
    before = len(checks)
    codes = [await close_of(socket) for socket in sockets]
    assert codes == [ENDS[end]] * 3
    # Not measured in seconds, of which a busy machine may take more.
    assert len(checks) - before <= MAX_CHECKS < 1 / CHECK_SECONDS
    # Nothing follows, whatever happens.
    await event(job, 1).asave()
    assert all([await socket.receive_nothing(timeout=0.2) for socket in sockets])


async def test_an_expired_session_closes_its_sockets(connect: Connect, job: Job) -> None:
    await Session.objects.aupdate(expire_date=timezone.now() + timedelta(seconds=2))
    sockets = await opened(connect, job)
    assert [await close_of(socket) for socket in sockets] == [LOGGED_OUT] * 3


def only_in_team(location: Location, level: Level) -> None:
    """Leave the user nothing but a role of their team on this location."""
    team = Team.objects.create(name="runners")
    team.members.add(User.objects.get())
    Role.objects.all().delete()
    Role.objects.create(team=team, location=location, level=level)


async def connected(connect: Connect, job: Job) -> list[WebsocketCommunicator]:
    """Open a socket of each kind."""
    paths = [f"/ws/jobs/{job.pk}/", f"/ws/jobs/{job.pk}/?show=page", f"/ws/locations/{job.location.uid}/"]
    sockets = [connect(path) for path in paths]
    for socket in sockets:
        await socket.connect()
    return sockets


async def test_taking_a_role_of_a_team_closes_sockets(connect: Connect, job: Job) -> None:
    await sync_to_async(only_in_team, thread_sensitive=False)(job.location, Level.OPERATOR)
    sockets = await opened(connect, job)
    await Team.objects.all().adelete()
    assert [await close_of(socket) for socket in sockets] == [RIGHT_CHANGED] * 3
    # The reloaded page finds nothing.
    assert [await close_of(socket) for socket in await connected(connect, job)] == [NOT_THERE] * 3


@pytest.mark.parametrize("level", Level)
async def test_sockets_of_another_team_do_not_exist(
    connect: Connect, job: Job, level: Level, tmp_path: Path
) -> None:
    def hide() -> Job:
        other = create_location(tmp_path / "other")
        return Job.objects.create(kind=Job.Kind.FORK, location=other, status=Job.Status.RUNNING)

    await sync_to_async(only_in_team, thread_sensitive=False)(job.location, level)
    home = connect("/ws/home/")
    await home.connect()
    before = await home.receive_from(timeout=30)
    hidden = await sync_to_async(hide, thread_sensitive=False)()
    assert [await close_of(socket) for socket in await connected(connect, hidden)] == [NOT_THERE] * 3
    for socket in await connected(connect, job):
        assert await socket.receive_from(timeout=30)
    # The numbers of the home page are those of the person's own locations.
    assert await home.receive_nothing(timeout=0.6)
    again = connect("/ws/home/")
    await again.connect()
    assert await again.receive_from(timeout=30) == before


async def test_a_long_replay_stops_when_the_session_ends(connect: Connect, job: Job) -> None:
    from viewer.models import JobEvent

    await JobEvent.objects.abulk_create([event(job, seq) for seq in range(1, 20_001)])
    socket = connect(f"/ws/jobs/{job.pk}/?show=page")
    await socket.connect()
    await socket.receive_from(timeout=30)
    await Session.objects.all().adelete()
    sent = []
    while (output := await socket.receive_output(timeout=30))["type"] == "websocket.send":
        sent.append(output["text"])
    assert output["code"] == LOGGED_OUT
    assert not any('data-seq="20000"' in text for text in sent)


async def test_other_commits_close_no_socket(connect: Connect, job: Job) -> None:
    sockets = await opened(connect, job)
    await sync_to_async(teammate, thread_sensitive=False)("bob", "run")
    await event(job, 1).asave()
    for socket in sockets[:2]:
        assert '"seq":1' in await socket.receive_from(timeout=30)
    assert all([await socket.receive_nothing(timeout=0.6) for socket in sockets])


async def test_a_page_rendered_with_another_right_is_notified_immediately(connect: Connect, job: Job) -> None:
    for shown, code in (("view", RIGHT_CHANGED), ("run", None), ("", None)):
        socket = connect(f"/ws/jobs/{job.pk}/?may={shown}")
        await socket.connect()
        if code:
            assert await close_of(socket) == code
        else:
            assert "job-actions" in await socket.receive_from(timeout=30)


async def test_a_hundred_sockets_need_few_queries_and_are_all_released(connect: Connect, job: Job) -> None:
    sockets = [connect(f"/ws/jobs/{job.pk}/") for _ in range(100)]
    for socket in sockets:
        await socket.connect()
        await socket.receive_from(timeout=30)
    (guard,) = guards.values()
    assert len(guard.sockets) == 100
    sessions = {admission.session for admission in guard.sockets.values()}

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            allowed_by(sessions)
        return len(captured)

    # The session, its user, and the roles of the user and of the user's teams.
    assert await sync_to_async(queries, thread_sensitive=False)() == 3
    for socket in sockets:
        await socket.disconnect()
    assert not guards

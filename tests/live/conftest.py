"""Sockets as a browser opens them, through the whole server."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Browser, Page

from checkpoint_site.asgi import application
from tests.live.server import Server
from tests.waiting import wait_until
from viewer.models import Job, JobEvent, Location
from viewer.records.accounts import teammate

MAX_SECONDS = 30


class PatientCommunicator(WebsocketCommunicator):
    """A socket that waits long enough for a busy machine."""

    async def connect(self, timeout: float = MAX_SECONDS) -> Any:
        return await super().connect(timeout)  # type: ignore[no-untyped-call]

    async def receive_from(self, timeout: float = MAX_SECONDS) -> Any:
        return await super().receive_from(timeout)  # type: ignore[no-untyped-call]

    async def receive_output(self, timeout: float = MAX_SECONDS) -> Any:
        return await super().receive_output(timeout)  # type: ignore[no-untyped-call]

    async def disconnect(self, code: int = 1000, timeout: float = MAX_SECONDS) -> None:
        await super().disconnect(code, timeout)  # type: ignore[no-untyped-call]


Connect = Callable[..., WebsocketCommunicator]


@pytest.fixture
def location(transactional_db: None, tmp_path: Path) -> Location:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    return Location.objects.create(path=str(folder), store_kind=Location.StoreKind.JSON)


@pytest.fixture
def job(location: Location) -> Job:
    """Create a running job without a process."""
    plan = [{"unit": "a", "title": "Research"}, {"unit": "b", "title": "Write"}]
    return Job.objects.create(
        kind=Job.Kind.FORK,
        location=location,
        branch="what-if",
        plan=plan,
        status=Job.Status.RUNNING,
        started_at=timezone.now(),
    )


@pytest.fixture
def cookie(transactional_db: None) -> str:
    """Return the session cookie of a logged-in user."""
    client = Client()
    client.force_login(teammate("runner", "run"))
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"


@pytest.fixture
async def connect(cookie: str) -> AsyncIterator[Connect]:
    """Return a function that opens sockets, logged in and from our own origin by default."""
    opened: list[WebsocketCommunicator] = []

    def make(
        path: str,
        *,
        as_cookie: str = cookie,
        origin: str = settings.ALLOWED_ORIGINS[0],
        language: str = "en",
        host: str = urlsplit(settings.ALLOWED_ORIGINS[0]).netloc,
    ) -> WebsocketCommunicator:
        headers = [(b"host", host.encode()), (b"origin", origin.encode()), (b"cookie", as_cookie.encode())]
        headers.append((b"accept-language", language.encode()))
        opened.append(PatientCommunicator(application, path, headers))  # type: ignore[no-untyped-call]
        return opened[-1]

    yield make
    for socket in opened:
        await socket.disconnect()


def event(job: Job, seq: int, kind: str = "tool_started", **data: object) -> JobEvent:
    """Create a row as the worker does."""
    return JobEvent(job=job, seq=seq, kind=kind, at=timezone.now(), data=data)


Receive = Callable[[], Awaitable[str]]


@pytest.fixture(scope="session")
def shared_server() -> Iterator[Server]:
    """Return a web server for all tests of this process. Starting one takes longer than most tests."""
    server = Server()
    yield server
    server.end()


@pytest.fixture
def server(transactional_db: None, shared_server: Server) -> Server:
    """Return a running web server, which the test may stop and start."""
    if not shared_server.is_running():
        shared_server.start()
    return shared_server


@pytest.fixture
def page(server: Server, browser: Browser) -> Iterator[Page]:
    """Return the page of a logged-in user. Fails on errors in its console."""
    client = Client()
    client.force_login(teammate("runner", "run"))
    context = browser.new_context(base_url=f"http://127.0.0.1:{server.port}")
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    name = f"forkline_session_{server.port}"
    context.add_cookies([{"name": name, "value": session, "domain": "127.0.0.1", "path": "/"}])
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    wait_until(server.answers)
    yield page
    context.close()
    assert errors == []

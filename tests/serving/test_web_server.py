"""The web server: limits, headers, threads, and shutdown with open sockets."""

import asyncio
import gc
import signal
import socket
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.conf import LazySettings, settings
from django.core.management.base import CommandError
from django.test import Client
from django.utils import timezone
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

from checkpoint_site.asgi import PAGE_THREADS
from checkpoint_site.middleware.requests import MAX_BODY_BYTES
from checkpoint_site.server import SOCKET_THREADS
from checkpoint_site.settings import MAX_HEADER_BYTES
from tests.serving.conftest import WebServer
from viewer.data_folder.changes import CommitChanges
from viewer.host.locations.importing import MIN_CHECKPOINTS, only_new_garbage
from viewer.management.commands.web import refuse_unhealthy
from viewer.models import Job, Location
from viewer.records.accounts import teammate
from viewer.web.live import broadcast
from viewer.web.live.broadcast import Broadcast, Rounds, send_repeatedly
from viewer.web.live.feeds import HOME, RowsFeed


def test_a_response_does_not_name_the_server(server: WebServer) -> None:
    answer = server.get("/login/")
    assert answer.status == 200
    assert answer.getheader("Server") is None


def test_forwarded_headers_are_not_trusted(server: WebServer) -> None:
    forwarded = {"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https"}
    answer = server.get("/", **forwarded)
    assert answer.status == 302
    assert answer.getheader("Location") == "/login/?next=/"
    assert server.get("/login/", Host="evil.example").status == 400


def test_static_files_are_served(server: WebServer) -> None:
    assert server.get("/static/css/design/base.css").status == 200


@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_body_is_refused(server: WebServer, chunked: bool) -> None:
    body = b"x" * 65536
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        length = f"Content-Length: {MAX_BODY_BYTES + 1}"
        kind = "Transfer-Encoding: chunked" if chunked else length
        client.sendall(f"POST /login/ HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n{kind}\r\n\r\n".encode())
        for _ in range(MAX_BODY_BYTES // len(body) + 2 if chunked else 0):
            try:
                client.sendall(b"%x\r\n%s\r\n" % (len(body), body))
            except ConnectionError:
                break
        assert client.recv(100).startswith(b"HTTP/1.1 413 ")


def test_large_headers_are_refused(server: WebServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * (2 * MAX_HEADER_BYTES))
        assert client.recv(100).startswith(b"HTTP/1.1 400 ")


def test_each_thread_has_one_database_connection(own_server: WebServer) -> None:
    with ThreadPoolExecutor(20) as clients:
        statuses = list(clients.map(lambda _: own_server.get("/login/?next=/").status, range(200)))
    assert set(statuses) == {200}
    # Each connection opens the database and its log.
    assert own_server.database_descriptors() <= 2 * (PAGE_THREADS + SOCKET_THREADS + 2)


async def test_shutdown_closes_open_sockets(own_server: WebServer, tmp_path: object) -> None:
    job = await asyncio.to_thread(open_job, str(tmp_path))
    cookie = await asyncio.to_thread(session_cookie, own_server.port)
    site = f"127.0.0.1:{own_server.port}"
    address = f"ws://{site}/ws/jobs/{job.pk}/"
    async with connect(
        address, origin=Origin(f"http://{site}"), additional_headers={"Cookie": cookie}
    ) as page:
        await page.recv()
        own_server.process.send_signal(signal.SIGTERM)
        with pytest.raises(ConnectionClosed):
            while True:
                await page.recv()
        assert page.close_code == 1012
    assert await asyncio.to_thread(own_server.process.wait, 30) == 0


def open_job(path: str) -> Job:
    location = Location.objects.create(path=path, store_kind=Location.StoreKind.JSON)
    running = Job.Status.RUNNING
    return Job.objects.create(kind="fork", location=location, status=running, started_at=timezone.now())


def session_cookie(port: int) -> str:
    client = Client()
    client.force_login(teammate("runner", "run"))
    return f"forkline_session_{port}={client.cookies[settings.SESSION_COOKIE_NAME].value}"


async def test_the_change_watcher_closes_its_connection(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opened = []

    def opening() -> CommitChanges:
        opened.append(CommitChanges(tmp_path / "db.sqlite3"))
        return opened[-1]

    monkeypatch.setattr(broadcast, "changes_of_rows", opening)
    feed = RowsFeed(HOME)
    rounds = Rounds({feed.audience: Broadcast(feed.audience, feed, "en")})
    sending = asyncio.create_task(send_repeatedly(rounds))
    while not opened:
        await asyncio.sleep(0)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    (changes,) = opened
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        changes.wait()


def test_a_small_import_does_not_disable_garbage_collection() -> None:
    before = gc.get_freeze_count()
    with only_new_garbage(MIN_CHECKPOINTS - 1):
        assert gc.get_freeze_count() == before
    with only_new_garbage(MIN_CHECKPOINTS):
        assert gc.get_freeze_count() > before


def test_the_check_reports_a_port_on_which_another_program_answers(
    settings: LazySettings,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as other:

        def answer() -> None:
            with listener.accept()[0] as client:
                client.recv(65536)
                client.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

        other.submit(answer)
        settings.PORT, settings.LISTEN_ADDRESS = listener.getsockname()[1], "127.0.0.1"
        with pytest.raises(CommandError, match="does not answer"):
            refuse_unhealthy()

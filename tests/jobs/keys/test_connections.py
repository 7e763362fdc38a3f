"""Runs that make the key proxy wait keep it from nobody, and an answer may take as long as it flows."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx2
import pytest

from tests.jobs.keys.conftest import KeyJob, StartKeyJob, kill_proxy
from tests.jobs.keys.upstream import Upstream
from tests.waiting import wait_until
from viewer.host.jobs import key_proxy
from viewer.host.jobs.kept_keys import folder

SECONDS = {"REQUEST_SECONDS": 1.0, "BODY_SECONDS": 1.0, "WHOLE_BODY_SECONDS": 3.0, "UNREAD_SECONDS": 2.0}
LONGEST = max(SECONDS.values())


@pytest.fixture
def job(start: StartKeyJob, monkeypatch: pytest.MonkeyPatch) -> Iterator[KeyJob]:
    """Return a job whose proxy runs in this process, with little patience and few connections."""
    found = start()
    kill_proxy()
    limits = {**SECONDS, "CHECK_SECONDS": 0.2, "IDLE_SECONDS": 0.2, "MAX_CONNECTIONS": 40}
    for name, value in limits.items():
        monkeypatch.setattr(key_proxy, name, value)
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        port = listener.getsockname()[1]
        found.variables["OPENAI_BASE_URL"] = found.url.replace(str(found.port), str(port))
        thread = threading.Thread(target=lambda: asyncio.run(key_proxy.serve(folder(), listener)))
        thread.start()
        yield found
        found.end()
        thread.join(60)
        assert not thread.is_alive()


def opened(job: KeyJob, data: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", job.port), timeout=60)
    connection.sendall(data)
    return connection


def head(job: KeyJob, line: str, *more: str, key: str = "") -> bytes:
    path = "/" + job.url.split("/", 3)[3]
    method, rest = line.split(" ")
    lines = [f"{method} {path}{rest} HTTP/1.1", f"Host: 127.0.0.1:{job.port}"]
    return "\r\n".join([*lines, f"X-Api-Key: {key or job.placeholder}", *more, "", ""]).encode()


def seconds_until_closed(connection: socket.socket, dribbled: bytes = b"") -> float:
    """How long the proxy leaves a connection open, to which a byte is sent from time to time."""
    started, connection_is_open = time.monotonic(), True
    connection.settimeout(0.2)
    while connection_is_open and time.monotonic() - started < 10 * LONGEST:
        try:
            if dribbled:
                connection.sendall(dribbled)
            connection_is_open = bool(connection.recv(65536))
        except TimeoutError:
            continue
        except OSError:
            connection_is_open = False
    return time.monotonic() - started


SLOW: dict[str, tuple[Callable[[KeyJob], bytes], bytes]] = {
    "nothing": (lambda _job: b"", b""),
    "headers": (lambda job: head(job, "GET /models")[:-2], b"x"),
    "a second request": (lambda job: head(job, "GET /models"), b"G"),
    "a body": (lambda job: head(job, "POST /models", "Content-Length: 900"), b""),
    "a dribbled body": (lambda job: head(job, "POST /models", "Content-Length: 900"), b"x"),
    "dribbled chunks": (lambda job: head(job, "POST /models", "Transfer-Encoding: chunked"), b"1\r\nx\r\n"),
    "a refused body": (lambda job: head(job, "POST /models", "Content-Length: 900", key="x"), b"x"),
}


@pytest.mark.parametrize("what", SLOW)
def test_a_client_that_makes_the_proxy_wait_is_disconnected(job: KeyJob, what: str) -> None:
    first, dribbled = SLOW[what]
    with opened(job, first(job)) as connection:
        assert seconds_until_closed(connection, dribbled) < 3 * LONGEST
    assert job.send().status_code == 200


def test_an_answer_that_nobody_reads_ends(job: KeyJob, server: Upstream) -> None:
    with opened(job, head(job, "GET /flood")):
        assert server.was_left.wait(60)


def test_an_answer_flows_for_longer_than_all_limits(job: KeyJob) -> None:
    headers, started = {"X-Api-Key": job.placeholder}, time.monotonic()
    with (
        httpx2.Client(trust_env=False, timeout=60) as client,
        client.stream("GET", f"{job.url}/endless", headers=headers) as answer,
    ):
        parts = answer.iter_bytes()
        while time.monotonic() - started < 2 * LONGEST:
            assert next(parts)


def test_idle_connections_keep_nobody_out(job: KeyJob) -> None:
    with ExitStack() as stack:
        connections = [stack.enter_context(opened(job, b"G" * (number % 2))) for number in range(120)]
        assert job.send().status_code == 200
        wait_until(lambda: sum(seconds_until_closed(one) < 0.1 for one in connections[:5]) == 5)

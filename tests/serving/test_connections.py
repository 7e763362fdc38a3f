"""Slow and unfinished requests, unread responses, and large headers, sent over plain sockets."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from checkpoint_site.server import MAX_CONNECTIONS
from checkpoint_site.settings import MAX_HEADER_BYTES
from tests.serving.conftest import WebServer, server_with_limits, started_server
from tests.waiting import wait_until

# Long enough for a busy machine, far below the server's own limits.
HEADER_SECONDS, BODY_SECONDS, UNREAD_SECONDS = 2, 3, 3
KEY = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
UNFINISHED = {
    "nothing": b"",
    "one byte": b"G",
    "a request line": b"GET /login/ HTTP/1.1\r\n",
    "headers": b"GET /login/ HTTP/1.1\r\nHost: HOST\r\nX: y",
    "a form": b"POST /login/ HTTP/1.1\r\nHost: HOST\r\nContent-Length: 100\r\n\r\nname=",
    "a page with a body": b"GET /login/ HTTP/1.1\r\nHost: HOST\r\nContent-Length: 100\r\n\r\n",
    "a share link": b"GET /shared/x/ HTTP/1.1\r\nHost: HOST\r\nContent-Length: 100\r\n\r\n",
    "a static file": b"GET /static/icon.svg HTTP/1.1\r\nHost: HOST\r\nContent-Length: 9\r\n\r\n",
    "an unknown address": b"PUT /nowhere/ HTTP/1.1\r\nHost: HOST\r\nContent-Length: 9\r\n\r\n",
    "another host": b"POST / HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 9\r\n\r\n",
    "chunks": b"POST /login/ HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nname=\r\n",
    "100-continue": (
        b"POST /login/ HTTP/1.1\r\nHost: HOST\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n"
    ),
    "a socket's handshake": (
        b"GET /ws/home/ HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    ),
    "a second request": b"GET /healthz HTTP/1.1\r\nHost: HOST\r\n\r\nGET /healthz HTTP/1.1\r\n",
}


@pytest.fixture(scope="module")
def impatient(django_db_setup: None) -> Iterator[WebServer]:
    """Return a web server whose limits are seconds."""
    command = server_with_limits(
        HEADER_SECONDS=HEADER_SECONDS, BODY_SECONDS=BODY_SECONDS, UNREAD_SECONDS=UNREAD_SECONDS
    )
    with started_server(command) as started:
        yield started


def sent(server: WebServer, data: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    client.sendall(data.replace(b"HOST", b"127.0.0.1:%d" % server.port))
    return client


def is_ended(client: socket.socket) -> bool:
    """Return whether the server has closed the connection, without waiting."""
    client.setblocking(False)
    try:
        while client.recv(65536):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


@pytest.mark.parametrize("trickles", [False, True])
def test_unfinished_requests_end(impatient: WebServer, trickles: bool) -> None:
    with ExitStack() as clients:
        opened = {
            name: clients.enter_context(sent(impatient, request)) for name, request in UNFINISHED.items()
        }

        def remaining() -> list[str]:
            for name, client in opened.items():
                with suppress(OSError):
                    client.send(trickled(name) if trickles else b"")
            return [name for name, client in opened.items() if not is_ended(client)]

        wait_until(lambda: not remaining())


def trickled(name: str) -> bytes:
    """Return what continues a request without ending it."""
    return b"1\r\nx\r\n" if name == "chunks" else b"x"


def test_the_response_to_an_unfinished_request_says_so(impatient: WebServer) -> None:
    with ExitStack() as clients:
        opened = [
            clients.enter_context(sent(impatient, UNFINISHED[name]))
            for name in ("headers", "a form", "a share link", "nothing")
        ]
        starts = [client.recv(13) for client in opened]
        # A browser may connect before it needs to.
        assert starts == [b"HTTP/1.1 408 "] * 3 + [b""]


def test_a_form_may_arrive_in_parts(impatient: WebServer) -> None:
    with sent(impatient, b"POST /login/ HTTP/1.1\r\nHost: HOST\r\nContent-Length: 20\r\n\r\n") as client:
        for _ in range(20):
            client.send(b"x")
        assert client.recv(13) == b"HTTP/1.1 403 "


@pytest.mark.parametrize("reads", [0, 1])
def test_a_response_that_nobody_reads_ends(impatient: WebServer, reads: int) -> None:
    request = b"GET /static/css/design/base.css HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % impatient.port
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", impatient.port))
        client.setblocking(False)

        def ended() -> bool:
            """Request more than the kernel buffers, and read next to nothing."""
            for step in (lambda: client.send(request * 100), lambda: reads and client.recv(reads)):
                try:
                    step()
                except BlockingIOError:
                    pass
                except ConnectionError:
                    return True
            return False

        wait_until(ended)


def test_a_slowly_read_response_is_sent_to_its_end(impatient: WebServer) -> None:
    request = b"GET /static/css/design/base.css HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % impatient.port
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", impatient.port))
        client.settimeout(20)
        client.sendall(request * 80)
        started, received = time.monotonic(), b""
        while time.monotonic() - started < 2 * UNREAD_SECONDS:
            received += client.recv(256)
            assert received
            time.sleep(0.005)
        while received.count(b"HTTP/1.1 200") < 80:
            received += client.recv(65536)


def test_unfinished_requests_do_not_keep_out_others(django_db_setup: None) -> None:
    """Long before they are too late."""
    with started_server(server_with_limits(HEADER_SECONDS=600)) as server, ExitStack() as clients:
        for _ in range(MAX_CONNECTIONS):
            clients.enter_context(sent(server, UNFINISHED["headers"]))
        wait_until(lambda: server.get("/healthz").status == 200)


@pytest.mark.parametrize("socket_headers", [False, True])
@pytest.mark.parametrize("spread", ["one header", "many headers", "the address", "cookies"])
def test_headers_are_limited_to_what_the_guide_says(
    server: WebServer, spread: str, socket_headers: bool
) -> None:
    def answer(size: int) -> bytes:
        address, extra = "/ws/home/" if socket_headers else "/static/icon.svg", ""
        fixed = "Connection: Upgrade\r\nUpgrade: websocket\r\n" + KEY if socket_headers else ""
        if spread == "the address":
            address += "?" + "x" * size
        elif spread == "many headers":
            extra = "".join(f"X-{number:04}: {'x' * 92}\r\n" for number in range(size // 100 + 1))
        else:
            extra = ("Cookie: a=" if spread == "cookies" else "X: ") + "x" * size + "\r\n"
        request = f"GET {address} HTTP/1.1\r\nHost: HOST\r\n{fixed}{extra}\r\n"
        # In one piece, as a proxy sends it.
        with sent(server, request.encode()) as client:
            return client.recv(12)

    assert answer(MAX_HEADER_BYTES + 1) in {b"HTTP/1.1 431", b"HTTP/1.1 400", b"HTTP/1.1 403"}
    assert answer(70_000) in {b"HTTP/1.1 431", b"HTTP/1.1 400", b"HTTP/1.1 403"}
    if not socket_headers:
        assert answer(MAX_HEADER_BYTES - 2000) == b"HTTP/1.1 200"


@pytest.mark.parametrize(
    "handshake",
    [
        "POST /ws/home/ HTTP/1.1",
        "GET /ws/home/ HTTP/1.0",
        "GET /ws/home/ HTTP/1.1\r\nContent-Length: 5",
        "GET /ws/home/ HTTP/1.1\r\nTransfer-Encoding: chunked",
        "GET /ws/home/ HTTP/1.1\r\nX: \x01",
    ],
)
def test_a_malformed_handshake_ends_at_once(server: WebServer, handshake: str) -> None:
    request = f"{handshake}\r\nHost: HOST\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{KEY}\r\n"
    with sent(server, request.encode()) as client:
        client.settimeout(5)
        assert client.recv(100).startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")) or is_ended(client)

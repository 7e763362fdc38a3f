"""``python -m checkpoint_site.server``: serves until SIGINT or SIGTERM, and ends slow connections."""

import argparse
import asyncio
import asyncio.constants
import contextlib
import ctypes
import gc
import os
import signal
import socket
import time
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets import http11
from websockets.http11 import Request

from checkpoint_site import settings
from checkpoint_site.settings import (
    ALLOWED_HOSTS,
    LISTEN_ADDRESS,
    MAX_HEADER_BYTES,
    PORT,
    TLS_CERTIFICATE,
    TLS_KEY,
)
from viewer.cli.supervision import add_lifeline_argument, hold
from viewer.tls import Certificate, InvalidCertificate

# From the connection's begin to the end of the TLS handshake; and for the client to confirm its end.
HANDSHAKE_SECONDS, GOODBYE_SECONDS = 5, 1
# From the end of the previous request, or the connection's begin, to the last header.
HEADER_SECONDS = 10
# From the last header to the end of the body.
BODY_SECONDS = 30
# Without a byte of a response, or of a socket's messages, being read.
UNREAD_SECONDS = 60
# Of the kernel, for each connection. With a larger one, it would show too late that nobody reads.
SEND_BUFFER_BYTES = 128 * 1024

# Otherwise sockets would have other limits than pages.
http11.MAX_LINE_LENGTH = http11.MAX_NUM_HEADERS = settings.MAX_HEADER_BYTES

BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
TIMED_OUT = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class Wait(NamedTuple):
    """What a connection waits for. As long as ``what`` is the same, the client has made no progress."""

    what: tuple[Any, ...]
    seconds: float


class SocketConnection(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket connection, which would stay open after a handshake that cannot be parsed."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # The handshake arrives as a whole (H11Protocol.handle_websocket_upgrade).
        if not self.handshake_initiated:
            self.reject()

    def handle_connect(self, event: Request) -> None:
        headers = event.headers.raw_items()
        quoted = [value for name, value in headers if name.lower().startswith("sec-websocket-")]
        # The response quotes them, and Python cannot encode other characters.
        if all(map(str.isascii, quoted)):
            super().handle_connect(event)

    def reject(self) -> None:
        """Refuse a handshake that cannot be parsed."""
        self.handshake_initiated = self.handshake_complete = True
        self.transport.write(BAD_REQUEST)
        self.transport.close()


class TlsListening(socket.socket):
    """A listening socket that knows its connections: asyncio shows only those after their TLS handshake."""

    def __init__(self, bound: socket.socket) -> None:
        super().__init__(fileno=bound.detach())
        self.accepted: WeakKeyDictionary[socket.socket, float] = WeakKeyDictionary()
        # uvicorn does not hand on what asyncio's ssl_handshake_timeout and ssl_shutdown_timeout are.
        constants: Any = asyncio.constants
        constants.SSL_HANDSHAKE_TIMEOUT, constants.SSL_SHUTDOWN_TIMEOUT = HANDSHAKE_SECONDS, GOODBYE_SECONDS

    def accept(self) -> tuple[socket.socket, Any]:
        connection, address = super().accept()
        self.accepted[connection] = time.monotonic()
        return connection, address

    def handshakes(self, connections: Iterable[Any]) -> list[tuple[float, socket.socket]]:
        """Return the sockets that are none of these connections yet, each with the time of its begin."""
        finished = {one.transport.get_extra_info("socket").fileno() for one in connections} | {-1}
        return [(begin, one) for one, begin in self.accepted.items() if one.fileno() not in finished]


@dataclass
class Patience:
    """Since when each connection has waited for the same thing. ``max_connections`` may be open."""

    max_connections: int
    since: "WeakKeyDictionary[Any, tuple[tuple[Any, ...], float]]" = field(default_factory=WeakKeyDictionary)

    def check(
        self, connections: Iterable[Any], now: float, handshakes: Iterable[tuple[float, socket.socket]] = ()
    ) -> None:
        """End the connections that have waited too long, by a clock in seconds. Called once a second.

        If three quarters of all connections are open, those that have waited longest for a request end too,
        so that unfinished requests, and handshakes, never keep out others.
        """
        waiting: list[tuple[float, Any]] = list(handshakes)
        found = list(connections)
        open_now = len(found) + len(waiting)
        for connection in found:
            wait = awaited(connection)
            if wait is None:
                self.since.pop(connection, None)
                continue
            what, since = self.since.get(connection, (None, now))
            if what != wait.what:
                since = now
                self.since[connection] = wait.what, now
            if now - since >= wait.seconds:
                end(connection)
            elif is_unfinished(connection):
                waiting.append((since, connection))
        crowd = open_now - self.max_connections * 3 // 4
        if crowd > 0:
            for _, connection in sorted(waiting, key=lambda one: one[0])[:crowd]:
                end(connection)


def awaited(connection: Any) -> Wait | None:
    """Return what the connection waits for from its client; None if the client waits."""
    unread = connection.transport.get_write_buffer_size()
    if unread:
        return Wait(("unread", unread), UNREAD_SECONDS)
    if is_unfinished(connection):
        # One cycle per request. Between two requests, it is that of the former.
        state = connection.conn.their_state
        return Wait((state, connection.cycle), HEADER_SECONDS if state is h11.IDLE else BODY_SECONDS)
    return None


def is_unfinished(connection: Any) -> bool:
    """Return whether a request, or the rest of one, has not arrived."""
    return isinstance(connection, H11Protocol) and connection.conn.their_state in (h11.IDLE, h11.SEND_BODY)


def end(connection: Any) -> None:
    """End a connection, with a response if a part of a request has arrived and nothing was sent."""
    if isinstance(connection, socket.socket):
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        return
    if connection.transport.get_write_buffer_size() or connection.transport.is_closing():
        # Closing it would wait until everything has been read, or for the end of TLS.
        connection.transport.abort()
        return
    state, response = connection.conn.their_state, connection.conn.our_state
    has_begun = state is h11.SEND_BODY or connection.conn.trailing_data[0]
    if has_begun and response in (h11.IDLE, h11.SEND_RESPONSE):
        connection.transport.write(TIMED_OUT)
    connection.transport.close()


# Threads for sockets. Each has its own database connection.
SOCKET_THREADS = 4
# Pages send nothing over their sockets.
MAX_SOCKET_MESSAGE_BYTES = 4096
MAX_CONNECTIONS = 1000
STOP_SECONDS = 5
TICK_SECONDS = 1
# glibc's mallopt. Each arena retains memory that its threads have freed.
M_ARENA_MAX = -8
MAX_ARENAS = 2


class Server(uvicorn.Server):
    """Uvicorn's server, waking once a second instead of ten times, and immediately when asked to stop."""

    # Only with an own certificate.
    certificate: Certificate | None = None
    listening: TlsListening | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals in the event loop, where taking a lock is safe."""
        self.stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(SOCKET_THREADS, thread_name_prefix="socket"))
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)
        self.patience = Patience(MAX_CONNECTIONS)
        yield

    def stop(self) -> None:
        """Finish open requests, close the sockets and exit."""
        self.should_exit = True
        self.stopping.set()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            connections = self.server_state.connections
            handshakes = self.listening.handshakes(connections) if self.listening else []
            self.patience.check(connections, asyncio.get_running_loop().time(), handshakes)
            if self.certificate:
                self.certificate.renew()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), TICK_SECONDS)


def main() -> None:
    """Serve until SIGINT or SIGTERM."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "checkpoint_site.settings")
    parser = argparse.ArgumentParser(prog="server", description=__doc__)
    add_lifeline_argument(parser)
    hold(parser.parse_args().lifeline)
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, MAX_ARENAS)
    # WhiteNoise serves its small files as synchronous iterators.
    warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume synchronous iterators")
    try:
        certificate = (
            Certificate(TLS_CERTIFICATE, TLS_KEY, ALLOWED_HOSTS) if TLS_CERTIFICATE and TLS_KEY else None
        )
    except InvalidCertificate as error:
        raise SystemExit(str(error)) from None
    config = configuration()
    config.load()
    # Imports models, which needs Django's settings.
    from viewer.records.audit import act_unattended

    act_unattended()
    # A full garbage collection runs when old objects have grown by a quarter. If permanent objects counted as
    # old, it would run after thousands of pages instead of hundreds.
    gc.collect()
    gc.freeze()
    listening = config.bind_socket()
    listening.set_inheritable(False)
    # Connections inherit it.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    server = Server(config)
    if certificate:
        config.ssl = certificate.context
        server.certificate = certificate
        listening = server.listening = TlsListening(listening)
    server.run([listening])


def configuration() -> uvicorn.Config:
    """Return uvicorn's configuration. Django configures logging."""
    return uvicorn.Config(
        "checkpoint_site.asgi:application",
        host=LISTEN_ADDRESS,
        port=PORT,
        loop="asyncio",
        http="h11",
        ws=SocketConnection,
        lifespan="off",
        log_config=None,
        # Query strings may hold login links.
        access_log=False,
        server_header=False,
        # Any client could send these headers.
        proxy_headers=False,
        # middleware/requests.py limits those that arrive in one piece.
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        ws_max_size=MAX_SOCKET_MESSAGE_BYTES,
        # Compression needs about 300 KB per socket.
        ws_per_message_deflate=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=STOP_SECONDS,
    )


if __name__ == "__main__":
    main()

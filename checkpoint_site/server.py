"""``python -m checkpoint_site.server``: serves pages and sockets until SIGINT or SIGTERM."""

import argparse
import asyncio
import contextlib
import ctypes
import gc
import os
import signal
import socket
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import uvicorn

from checkpoint_site.connections import SEND_BUFFER_BYTES, Patience, SocketConnection, TlsListening
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
        # middleware/request_limits.py limits those that arrive in one piece.
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        ws_max_size=MAX_SOCKET_MESSAGE_BYTES,
        # Compression needs about 300 KB per socket.
        ws_per_message_deflate=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=STOP_SECONDS,
    )


if __name__ == "__main__":
    main()

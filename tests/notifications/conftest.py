"""A webhook server on this machine."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass
class Hook:
    """A server that records what it receives, and answers with ``status``."""

    port: int = 0
    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    # Sends a byte from time to time instead, without an end.
    is_slow: bool = False
    received: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?a=1"


@pytest.fixture
def hook() -> Iterator[Hook]:
    state, stopping = Hook(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            state.received.append((self.path, dict(self.headers), body))
            while state.is_slow and not stopping.wait(0.05):
                self.wfile.write(b"H")
            self.send_response(state.status)
            for name, value in state.headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.port = server.server_port
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield state
    stopping.set()
    server.shutdown()
    server.server_close()

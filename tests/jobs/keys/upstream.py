"""A model server on this machine that records which keys it gets, and answers as hostile servers might."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

KEY_HEADERS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")


@dataclass
class Upstream:
    """``requests`` are the lines, headers and bodies that it received."""

    port: int = 0
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    # Where a redirect leads.
    elsewhere: str = ""
    # Set when a client has ended a stream before its end.
    was_left: Event = field(default_factory=Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def keys(self) -> list[str]:
        """The keys that it received, without ``Bearer``."""
        sent = [
            {name.lower(): value for name, value in headers.items()}
            for _line, headers, _body in self.requests
        ]
        return [one[name].removeprefix("Bearer ") for one in sent for name in KEY_HEADERS if name in one]


@contextmanager
def upstream() -> Iterator[Upstream]:
    """Serve until the end of the block."""
    found = Upstream()

    class Handler(_Handler):
        served = found

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    # Clients leave in the middle of answers.
    server.handle_error = lambda *_request: None  # type: ignore[method-assign]
    found.port = server.server_address[1]
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: Upstream

    def log_message(self, *_arguments: Any) -> None:
        pass

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        self.served.requests.append((self.requestline, dict(self.headers), body))
        path = self.path.partition("?")[0]
        answers = {"/v1/echo": self._echo, "/v1/redirect": self._redirect, "/v1/stream": self._stream}
        answers |= {
            "/v1/endless": self._endless,
            "/v1/flood": partial(self._endless, 100_000),
            "/v1/zipped": self._zipped,
        }
        answers |= {"/v1/chat/completions": self._completion, "/v1/messages": self._message}
        answers.get(path, self._plain)()

    do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = do_GET  # noqa: N815

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _plain(self) -> None:
        self._send(200, b'{"ok": true}', Set_Cookie="session=1")

    def _echo(self) -> None:
        key = self.served.keys[-1]
        self._send(401, f"Wrong key: {key}, {json.dumps(key)}".encode(), X_Your_Key=f"<{key}>")

    def _redirect(self) -> None:
        self._send(307, b"", Location=self.served.elsewhere)

    def _zipped(self) -> None:
        self._send(200, b"anything", Content_Encoding="gzip")

    def _start_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()

    def _stream(self) -> None:
        """Send the key in every possible pair of pieces."""
        key = self.served.keys[-1].encode()
        self._start_stream()
        for at in range(1, len(key)):
            for part in (b"data: " + key[:at], key[at:] + b"\n\n"):
                self.wfile.write(part)
                self.wfile.flush()

    def _endless(self, times: int = 1) -> None:
        self._start_stream()
        try:
            while True:
                self.wfile.write(b"data: 1\n\n" * times)
                self.wfile.flush()
                time.sleep(0.01)
        except OSError:
            self.served.was_left.set()

    def _completion(self) -> None:
        message = {"role": "assistant", "content": "words"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
        self._send_or_stream(
            {
                "id": "1",
                "object": "chat.completion",
                "created": 1,
                "model": "m",
                "choices": [choice],
                "usage": usage,
            },
            [
                {
                    **{"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"},
                    "choices": [
                        {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": end}
                    ],
                }
                for text, end in (("wo", None), ("rds", None), ("", "stop"))
            ],
        )

    def _message(self) -> None:
        usage = {"input_tokens": 7, "output_tokens": 5}
        message: dict[str, Any] = {
            "id": "1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "usage": usage,
        }
        message |= {"stop_reason": "end_turn"}
        delta: dict[str, Any] = {"type": "content_block_delta", "index": 0}
        self._send_or_stream(
            {**message, "content": [{"type": "text", "text": "words"}]},
            [
                {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
                {**delta, "delta": {"type": "text_delta", "text": "wo"}},
                {**delta, "delta": {"type": "text_delta", "text": "rds"}},
                {"type": "content_block_stop", "index": 0},
                {
                    "type": "message_delta",
                    "delta": {"stop_reason": "end_turn"},
                    "usage": {"output_tokens": 5},
                },
                {"type": "message_stop"},
            ],
        )

    def _send_or_stream(self, whole: dict[str, Any], parts: list[dict[str, Any]]) -> None:
        if not json.loads(self.served.requests[-1][2]).get("stream"):
            self._send(200, json.dumps(whole).encode())
            return
        self._start_stream()
        for part in parts:
            event = f"event: {part['type']}\n" if "type" in part else ""
            self.wfile.write(f"{event}data: {json.dumps(part)}\n\n".encode())
            self.wfile.flush()
        if "type" not in parts[0]:
            self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

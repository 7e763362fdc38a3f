"""A server with OpenAI's API: /v1/chat/completions, at once or streamed, /v1/embeddings and /v1/models."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from offline_model import answers
from offline_model.answers import Answer
from offline_model.completions import MODEL, chunks_of, completion_of
from offline_model.embeddings import embedded

MAX_GATE_SECONDS = 180


class OfflineModel(ThreadingHTTPServer):
    """A model whose answers follow from the request alone.

    ``delay``: seconds between two pieces of a streamed answer.
    ``requests``: the bodies of the completion requests, oldest first; ``keys``: their Authorization headers.
    ``gate``: answers wait while it is cleared. It is cleared at call number ``holds_from``, if that is set.
    ``refusals``: texts, with the HTTP status that answers a request whose model or messages contain one.
    """

    daemon_threads = True

    def __init__(
        self,
        port: int = 0,
        delay: float = 0.0,
        listening: int | None = None,
        answer: Callable[[dict[str, Any]], Answer] = answers.answer,
    ) -> None:
        """``listening`` is the descriptor of a listening socket, used instead of a port."""
        super().__init__(("127.0.0.1", port), Handler, bind_and_activate=listening is None)
        if listening is not None:
            self.socket.close()
            self.socket = socket.socket(fileno=listening)
            self.server_address = self.socket.getsockname()
            name, port = self.socket.getsockname()
            self.server_name, self.server_port = str(name), int(port)
        self.delay = delay
        self.answer = answer
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.refusals: dict[str, int] = {}
        self.holds_from: int | None = None
        self.gate = threading.Event()
        self.gate.set()
        self._received = threading.Condition()

    @property
    def url(self) -> str:
        """The value for OPENAI_BASE_URL."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    def start(self) -> None:
        """Serve in a thread until ``stop``."""
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self) -> None:
        """Answer what still waits, and stop serving."""
        self.gate.set()
        self.shutdown()
        self.server_close()

    def receive(self, request: dict[str, Any], key: str) -> None:
        """Record a request, and wait for the gate."""
        with self._received:
            self.requests.append(request)
            self.keys.append(key)
            if self.holds_from is not None and len(self.requests) >= self.holds_from:
                self.gate.clear()
            self._received.notify_all()
        self.gate.wait(MAX_GATE_SECONDS)

    def wait_for(self, calls: int, seconds: float = 180) -> None:
        """Wait until this many requests were received. Raises AssertionError if they were not."""
        with self._received:
            is_complete = self._received.wait_for(lambda: len(self.requests) >= calls, seconds)
        assert is_complete, len(self.requests)

    def refusal_of(self, request: dict[str, Any]) -> int | None:
        """Return the status that this request is refused with, or None."""
        text = json.dumps([request.get("model"), request["messages"]])
        return next((status for refused, status in self.refusals.items() if refused in text), None)

    def reset(self) -> None:
        """Forget the requests and the refusals."""
        self.requests.clear()
        self.keys.clear()
        self.refusals.clear()
        self.holds_from = None

    def prompts(self) -> list[str]:
        """Return the messages of each request as one text."""
        return [
            "\n".join(str(message.get("content")) for message in body["messages"]) for body in self.requests
        ]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: OfflineModel

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self.send_json(
                {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "offline"}]}
            )
        else:
            self.send_json({"error": {"message": f"There is no {self.path} here."}}, status=404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        respond = {"/v1/chat/completions": self.complete, "/v1/embeddings": self.embed}.get(self.path)
        if respond is None:
            self.send_json({"error": {"message": f"There is no {self.path} here."}}, status=404)
            return
        try:
            respond(json.loads(body))
        except (ValueError, KeyError, AttributeError, TypeError) as problem:
            self.send_json({"error": {"message": f"Not a chat completion request: {problem}"}}, status=400)

    def embed(self, request: dict[str, Any]) -> None:
        self.send_json(embedded(request))

    def complete(self, request: dict[str, Any]) -> None:
        said = self.server.answer(request)
        self.server.receive(request, self.headers.get("Authorization", ""))
        refusal = self.server.refusal_of(request)
        if refusal:
            self.send_json({"error": {"message": f"refused with {refusal}"}}, status=refusal)
            return
        time.sleep(self.server.delay * 4)
        if request.get("stream"):
            self.send_stream(chunks_of(request, said))
        else:
            self.send_json(completion_of(request, said))

    def send_json(self, value: dict[str, Any], status: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.write(self.end_headers)
        self.write(self.wfile.write, data)

    def send_stream(self, chunks: Iterator[dict[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.write(self.end_headers)
        for chunk in chunks:
            self.write(self.wfile.write, f"data: {json.dumps(chunk)}\n\n".encode())
            time.sleep(self.server.delay)
        self.write(self.wfile.write, b"data: [DONE]\n\n")
        self.close_connection = True

    def write(self, send: Callable[..., object], *data: bytes) -> None:
        """Send to the client. One that was cancelled or killed has closed the connection."""
        try:
            send(*data)
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: the dashboard shows the requests."""

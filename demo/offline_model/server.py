"""The offline model's server: /v1/chat/completions, at once or streamed, and /v1/models."""

import json
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from offline_model.answers import Answer, answer

MODEL = "gpt-4o-mini"
# The same for every answer: nothing in it depends on the clock.
CREATED = 1_700_000_000
WORDS_A_CHUNK = 5


class OfflineModel(ThreadingHTTPServer):
    """A running model. ``requests`` are the bodies that it was sent, oldest first."""

    daemon_threads = True

    def __init__(self, port: int = 0, delay: float = 0.0, listening: int | None = None) -> None:
        """``listening`` is the descriptor of a socket that listens already, instead of a port."""
        super().__init__(("127.0.0.1", port), Handler, bind_and_activate=listening is None)
        if listening is not None:
            self.socket.close()
            self.socket = socket.socket(fileno=listening)
            self.server_address = self.socket.getsockname()
            name, port = self.socket.getsockname()
            self.server_name, self.server_port = str(name), int(port)
        self.delay = delay
        self.requests: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        """What OPENAI_BASE_URL is set to."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    def start(self) -> None:
        """Serve from a thread of its own, until ``stop``."""
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self) -> None:
        self.shutdown()
        self.server_close()


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
        if self.path != "/v1/chat/completions":
            self.send_json({"error": {"message": f"There is no {self.path} here."}}, status=404)
            return
        try:
            request = json.loads(body)
            said = answer(request)
        except (ValueError, KeyError, AttributeError, TypeError) as problem:
            self.send_json({"error": {"message": f"Not a chat completion request: {problem}"}}, status=400)
            return
        self.server.requests.append(request)
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
        self.end_headers()
        self.wfile.write(data)

    def send_stream(self, chunks: Iterator[dict[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            for chunk in chunks:
                self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
                self.wfile.flush()
                time.sleep(self.server.delay)
            self.wfile.write(b"data: [DONE]\n\n")
        except (BrokenPipeError, ConnectionResetError):
            # Who asked has gone, as a cancelled run does.
            pass
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: what was asked is for the dashboard to show."""


def completion_of(request: dict[str, Any], said: Answer) -> dict[str, Any]:
    """The whole answer, as one object."""
    message: dict[str, Any] = {"role": "assistant", "content": said.text or None}
    if said.tool:
        message["tool_calls"] = [tool_call(request, said)]
    choice = {"index": 0, "message": message, "finish_reason": finish_of(said)}
    return envelope(request, "chat.completion") | {"choices": [choice], "usage": usage_of(request, said)}


def chunks_of(request: dict[str, Any], said: Answer) -> Iterator[dict[str, Any]]:
    """The answer a few words at a time, then how it ended, then its usage."""
    start = envelope(request, "chat.completion.chunk")
    if said.tool:
        yield start | {
            "choices": [choice_of({"role": "assistant", "tool_calls": [tool_call(request, said)]})]
        }
    for position, words in enumerate(in_pieces(said.text)):
        role = {"role": "assistant"} if position == 0 else {}
        yield start | {"choices": [choice_of(role | {"content": words})]}
    yield start | {"choices": [choice_of({}, finish_of(said))]}
    if (request.get("stream_options") or {}).get("include_usage"):
        yield start | {"choices": [], "usage": usage_of(request, said)}


def in_pieces(text: str) -> list[str]:
    """The text cut behind every fifth word; joined, it is the text again."""
    words = text.split(" ")
    pieces = [" ".join(words[at : at + WORDS_A_CHUNK]) for at in range(0, len(words), WORDS_A_CHUNK)]
    return [piece + " " for piece in pieces[:-1]] + pieces[-1:] if text else []


def choice_of(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": finish}


def finish_of(said: Answer) -> str:
    return "tool_calls" if said.tool else "stop"


def tool_call(request: dict[str, Any], said: Answer) -> dict[str, Any]:
    name = f"call_{mark_of(request)}"
    return {
        "index": 0,
        "id": name,
        "type": "function",
        "function": {"name": said.tool, "arguments": said.arguments},
    }


def envelope(request: dict[str, Any], kind: str) -> dict[str, Any]:
    model = request.get("model") or MODEL
    return {"id": f"chatcmpl-{mark_of(request)}", "object": kind, "created": CREATED, "model": model}


def mark_of(request: dict[str, Any]) -> str:
    """Eight digits that follow from the conversation."""
    return f"{zlib.crc32(json.dumps(request.get('messages'), sort_keys=True).encode()):08x}"


def usage_of(request: dict[str, Any], said: Answer) -> dict[str, int]:
    """Tokens, at four characters each, as a rule of thumb has it."""
    asked = sum(len(json.dumps(message)) for message in request.get("messages") or [])
    prompt, completion = -(-asked // 4), -(-len(said.text + said.tool + said.arguments) // 4)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

"""An OpenAI-compatible model on loopback: it answers the same each time, and keeps what it was sent."""

import base64
import contextlib
import hashlib
import json
import threading
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
DIMENSIONS = 64


class ModelServer(ThreadingHTTPServer):
    """``requests`` are the bodies in the order they came. While ``gate`` is cleared, answers wait.

    ``refusals`` are texts and the status that a call which speaks of one is answered with. From the
    call number ``holds_from`` on, answers wait too. With ``calls_tools``, a tool that is offered is called.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.asked = threading.Condition()
        self.refusals: dict[str, int] = {}
        self.holds_from: int | None = None
        self.calls_tools = False

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def take(self, body: dict[str, Any], key: str) -> None:
        """Keep a call, and wait for as long as it is to get no answer."""
        with self.asked:
            self.requests.append(body)
            self.keys.append(key)
            if self.holds_from is not None and len(self.requests) >= self.holds_from:
                self.gate.clear()
            self.asked.notify_all()
        self.gate.wait(180)

    def refusal_of(self, body: dict[str, Any]) -> int | None:
        """The status that this call is refused with, if it is."""
        asked = json.dumps(body["messages"])
        return next((status for text, status in self.refusals.items() if text in asked), None)

    def wants_tool(self, body: dict[str, Any]) -> bool:
        """Whether to answer with a call of the offered tool, once in a conversation."""
        used = any(message["role"] == "tool" for message in body["messages"])
        return self.calls_tools and bool(body.get("tools")) and not used

    def wait_for(self, calls: int, seconds: float = 180) -> None:
        """Until so many calls have come. Raises AssertionError where they do not."""
        with self.asked:
            assert self.asked.wait_for(lambda: len(self.requests) >= calls, seconds), len(self.requests)

    def forget(self) -> None:
        self.requests.clear()
        self.keys.clear()
        self.refusals.clear()
        self.holds_from, self.calls_tools = None, False

    def prompts(self) -> list[str]:
        """What each call was asked, as one text."""
        return [
            "\n".join(str(message.get("content")) for message in body["messages"]) for body in self.requests
        ]


class Handler(BaseHTTPRequestHandler):
    server: ModelServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("/embeddings"):
            self.answer(200, embedded(body))
            return
        self.server.take(body, self.headers.get("Authorization", ""))
        refusal = self.server.refusal_of(body)
        if refusal:
            self.answer(refusal, json.dumps({"error": {"message": f"refused with {refusal}"}}).encode())
        elif self.server.wants_tool(body):
            self.answer(200, calling(body["tools"][0]["function"]))
        else:
            text = answer_to(body)
            self.answer(200, streamed(text) if body.get("stream") else whole(text), body.get("stream"))

    def answer(self, status: int, data: bytes, streams: bool = False) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/event-stream" if streams else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        # A child that was killed, or whose patience ended, listens no more.
        with contextlib.suppress(OSError):
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def embedded(body: dict[str, Any]) -> bytes:
    """A vector for each text: texts that have words in common are near each other, and none is far."""
    texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
    data: list[dict[str, Any]] = []
    for index, text in enumerate(texts):
        vector = array("f", [1.0] * DIMENSIONS)
        for word in str(text).lower().split():
            vector[int(hashlib.sha256(word.encode()).hexdigest(), 16) % DIMENSIONS] += 0.2
        plain = body.get("encoding_format") != "base64"
        packed = list(vector) if plain else base64.b64encode(vector.tobytes()).decode()
        data.append({"object": "embedding", "index": index, "embedding": packed})
    answer = {"object": "list", "data": data, "model": body.get("model", ""), "usage": USAGE}
    return json.dumps(answer).encode()


def answer_to(body: dict[str, Any]) -> str:
    """The same question gets the same answer; asked for JSON, a JSON object."""
    asked = json.dumps(body["messages"], sort_keys=True)
    mark = hashlib.sha256(asked.encode()).hexdigest()[:8]
    if body.get("response_format"):
        schema = body["response_format"].get("json_schema", {}).get("schema") or {}
        return json.dumps(_fitting(schema, mark, schema.get("$defs", {})))
    return f"words {mark}"


def _fitting(schema: dict[str, Any], mark: str, definitions: dict[str, Any]) -> Any:
    """A value that fits the schema, the same for the same mark."""
    if "$ref" in schema:
        return _fitting(definitions[schema["$ref"].rpartition("/")[2]], mark, definitions)
    if "anyOf" in schema:
        return _fitting(schema["anyOf"][-1], mark, definitions)
    if schema.get("type") == "array":
        return [_fitting(schema["items"], mark, definitions)]
    if schema.get("type") == "object":
        return {
            name: _fitting(part, mark, definitions) for name, part in schema.get("properties", {}).items()
        }
    plain: dict[str, Any] = {"integer": 3, "number": 0.5, "boolean": True, "null": None}
    return plain.get(schema.get("type", ""), f"fact {mark}")


def whole(text: str) -> bytes:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps({**_head("chat.completion"), "choices": [choice], "usage": USAGE}).encode()


def calling(tool: dict[str, Any]) -> bytes:
    """A call of this tool, with a word for each of its arguments."""
    arguments = dict.fromkeys(tool.get("parameters", {}).get("properties", {}), "words")
    called = {"name": tool["name"], "arguments": json.dumps(arguments)}
    message = {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": called}]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return json.dumps({**_head("chat.completion"), "choices": [choice], "usage": USAGE}).encode()


def streamed(text: str) -> bytes:
    pieces = [{"index": 0, "delta": {"role": "assistant", "content": word + " "}} for word in text.split(" ")]
    chunks = [{**_head("chat.completion.chunk"), "choices": [piece]} for piece in pieces]
    last = {"index": 0, "delta": {}, "finish_reason": "stop"}
    chunks += [
        {**_head("chat.completion.chunk"), "choices": [last]},
        {**_head("chat.completion.chunk"), "choices": [], "usage": USAGE},
    ]
    return (
        b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
    )


def _head(kind: str) -> dict[str, Any]:
    return {"id": "x", "object": kind, "created": 0, "model": "gpt-4o-mini"}


@contextmanager
def model_server() -> Iterator[ModelServer]:
    """A running one, ended at the end."""
    server = ModelServer()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.gate.set()
    server.shutdown()
    server.server_close()

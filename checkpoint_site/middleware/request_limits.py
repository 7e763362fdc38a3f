"""Rejects requests with headers or a body that are too large, the latter before receiving all of it."""

from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any

from django.conf import settings

MAX_BODY_BYTES = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
# Of the request line and all headers. The web server itself notices only headers that arrive in parts.
MAX_HEADER_BYTES = settings.MAX_HEADER_BYTES

TOO_LARGE = (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, b"The request is too large.\n")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


class BodyTooLarge(Exception):
    """The body is larger than ``MAX_BODY_BYTES``."""


def with_header_limit(application: Application) -> Application:
    """Wrap an ASGI application: requests for pages and sockets with headers that are too large get 431."""

    async def limited(scope: Message, receive: Receive, send: Send) -> None:
        if _header_bytes(scope) <= MAX_HEADER_BYTES:
            await application(scope, receive, send)
        elif scope["type"] == "http":
            await _reject(send, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, b"The headers are too large.\n")
        else:
            await send({"type": "websocket.close"})

    return limited


def with_body_limit(application: Application) -> Application:
    """Wrap an ASGI application: requests with a body that is too large are answered with 413."""

    async def limited(scope: Message, receive: Receive, send: Send) -> None:
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > MAX_BODY_BYTES:
                raise BodyTooLarge
            return message

        if _content_length(scope) > MAX_BODY_BYTES:
            await _reject(send, *TOO_LARGE)
            return
        try:
            await application(scope, counted, send)
        except BodyTooLarge:
            await _reject(send, *TOO_LARGE)

    return limited


def _header_bytes(scope: Message) -> int:
    """Return the size of the request line and the headers, about as they were sent."""
    line = len(scope.get("raw_path", b"")) + len(scope["query_string"])
    # A colon, a space and the line break.
    return line + sum(len(name) + len(value) + 4 for name, value in scope["headers"])


def _content_length(scope: Message) -> int:
    """Return the Content-Length header in bytes, or 0 if there is none."""
    length = dict(scope["headers"]).get(b"content-length", b"0")
    return int(length) if length.isdigit() else 0


async def _reject(send: Send, status: HTTPStatus, text: bytes) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": int(status), "headers": headers})
    await send({"type": "http.response.body", "body": text})

"""Rejects requests with a body that is too large, before receiving all of it."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

# Django accepts forms of up to 2.5 MB. There are no file uploads.
MAX_BODY_BYTES = 4 * 1024 * 1024

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


class BodyTooLarge(Exception):
    """The body is larger than ``MAX_BODY_BYTES``."""


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
            await _reject(send)
            return
        try:
            await application(scope, counted, send)
        except BodyTooLarge:
            await _reject(send)

    return limited


def _content_length(scope: Message) -> int:
    """Return the Content-Length header in bytes, or 0 if there is none."""
    length = dict(scope["headers"]).get(b"content-length", b"0")
    return int(length) if length.isdigit() else 0


async def _reject(send: Send) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": b"The request is too large."})

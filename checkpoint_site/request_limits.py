"""Refuses requests whose body is too large, before it is received whole."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

# Django accepts forms of 2.5 MB; files are never sent here.
MAX_BODY_BYTES = 4 * 1024 * 1024

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


class BodyTooLarge(Exception):
    """More than ``MAX_BODY_BYTES`` were sent."""


def with_body_limit(application: Application) -> Application:
    """The application, which gets no request whose body is too large: that is answered with 413."""

    async def limited(scope: Message, receive: Receive, send: Send) -> None:
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > MAX_BODY_BYTES:
                raise BodyTooLarge
            return message

        if _stated_length(scope) > MAX_BODY_BYTES:
            await _refuse(send)
            return
        try:
            await application(scope, counted, send)
        except BodyTooLarge:
            await _refuse(send)

    return limited


def _stated_length(scope: Message) -> int:
    """The body's length as its header says; 0 where it says none."""
    stated = dict(scope["headers"]).get(b"content-length", b"0")
    return int(stated) if stated.isdigit() else 0


async def _refuse(send: Send) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": b"The request is too large."})

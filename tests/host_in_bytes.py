"""Answers requests to the host as another machine would: requests, replies and refusals travel as bytes."""

from typing import Any, TypeVar, cast

from viewer import host_requests
from viewer.host.answers import answer as answer_here
from viewer.host.permitted import refuse_actor
from viewer.host_requests import HostRefusal, Report, Request, decoded, decoded_reply, encoded
from viewer.messages.message import message_from

Reply = TypeVar("Reply")


def answer(request: Request[Reply], report: Report | None = None, host: int | None = None) -> Reply:
    """Return the reply to a request, after both were bytes."""
    received = decoded(encoded(request), type(request))
    refuse_actor(received)
    try:
        reply = answer_here(received, report)
    except HostRefusal as refusal:
        raise refused_by(type(refusal).__name__, encoded(refusal.message.as_data())) from None
    return cast(Reply, decoded_reply(encoded(reply), received))


def refused_by(name: str, data: bytes) -> HostRefusal:
    """Return the refusal of this class with this message."""
    kind: type[HostRefusal] = getattr(host_requests, name)
    message = message_from(decoded(data, Any))
    assert message is not None and issubclass(kind, HostRefusal)
    return kind.saying(message)

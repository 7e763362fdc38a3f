"""Answers requests to the host as another machine would: requests, replies and refusals travel as bytes."""

from typing import Any, TypeVar, cast, get_args

from viewer import host_requests
from viewer.engines import engine_named
from viewer.host.answers import answer as answer_here
from viewer.host_requests import HostRefusal, ReadSource, Report, Request, decoded, encoded
from viewer.messages.message import UserFacingError, message_from

Reply = TypeVar("Reply")


def answer(request: Request[Reply], report: Report | None = None) -> Reply:
    """Return the reply to a request, after both were bytes."""
    received = decoded(encoded(request), type(request))
    try:
        reply = answer_here(received, report)
    except HostRefusal as refusal:
        raise refused_by(type(refusal).__name__, encoded(refusal.message.as_data())) from None
    kind = reply_type(type(received))
    if isinstance(received, ReadSource):
        kind = engine_named(received.engine).source_type
    return cast(Reply, decoded(encoded(reply), kind))


def reply_type(request: type[Request[Any]]) -> Any:
    """Return the type of the reply to requests of this type."""
    (base,) = request.__orig_bases__  # type: ignore[attr-defined]
    (found,) = get_args(base)
    return found


def refused_by(name: str, data: bytes) -> HostRefusal:
    """Return the refusal of this class with this message."""
    kind: type[HostRefusal] = getattr(host_requests, name)
    message = message_from(decoded(data, Any))
    assert message is not None and issubclass(kind, HostRefusal)
    refusal = kind.__new__(kind)
    UserFacingError.__init__(refusal, message)
    return refusal

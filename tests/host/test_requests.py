"""Requests to a host and its replies are plain values, so that they can be sent to another machine."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from viewer import host_requests
from viewer.host.answers import _answer, answer
from viewer.host.jobs.answers import answer_about_jobs
from viewer.host.permitted import PERMISSIONS
from viewer.host_requests import (
    CheckProject,
    HostRefusal,
    JobRefused,
    OpenLocation,
    Request,
    UnknownLocation,
    ask,
    decoded,
    encoded,
    reply_type,
)
from viewer.models import Location

REQUESTS = [
    one
    for one in vars(host_requests).values()
    if isinstance(one, type) and issubclass(one, Request) and one is not Request
]
REFUSALS = [
    one
    for one in vars(host_requests).values()
    if isinstance(one, type) and issubclass(one, HostRefusal) and one is not HostRefusal
]


def custom_types(found: inspect.Type, seen: set[Any]) -> set[Any]:
    """Return the types inside a type that are no plain values. ``seen`` are the classes looked at before."""
    if isinstance(found, inspect.CustomType):
        return {found.cls}
    cls = getattr(found, "cls", None)
    if cls is not None and cls in seen:
        return set()
    seen.add(cls)
    values = (getattr(found, name) for name in found.__struct_fields__)
    inner = (one for value in values for one in (value if isinstance(value, tuple) else (value,)))
    types = (one.type if isinstance(one, inspect.Field) else one for one in inner)
    return {cls for one in types if isinstance(one, inspect.Type) for cls in custom_types(one, seen)}


def test_every_request_needs_a_permission() -> None:
    assert set(PERMISSIONS) == set(REQUESTS)


@pytest.mark.parametrize("kind", REQUESTS, ids=[one.__name__ for one in REQUESTS])
def test_a_request_and_its_reply_are_plain_values(kind: type[Request[Any]]) -> None:
    for described in (inspect.type_info(kind), inspect.type_info(reply_type(kind))):
        # An input's type is sent by its name.
        assert custom_types(described, set()) <= {type}


@pytest.mark.parametrize("kind", REQUESTS, ids=[one.__name__ for one in REQUESTS])
def test_a_host_answers_each_request(kind: type[Request[Any]]) -> None:
    assert any(one.dispatch(kind) is not one.dispatch(object) for one in (_answer, answer_about_jobs))


def test_another_value_is_no_request() -> None:
    with pytest.raises(TypeError, match="str is no request"):
        answer("read everything")  # type: ignore[arg-type]


def test_a_refusal_keeps_its_class_and_its_message(db: None, tmp_path: Path) -> None:
    with pytest.raises(UnknownLocation, match="nothing at this path"):
        ask(OpenLocation(str(tmp_path / "missing")))
    with pytest.raises(JobRefused, match="project"):
        ask(CheckProject(None))


def test_a_reply_names_rows_by_their_keys(db: None, tmp_path: Path) -> None:
    (tmp_path / "main").mkdir()
    key = ask(OpenLocation(str(tmp_path)))
    assert Location.objects.get(pk=key).path == str(tmp_path)


def test_bytes_of_another_request_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        decoded(encoded(CheckProject(1)), OpenLocation)

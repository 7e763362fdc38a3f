"""A model that cannot be reached is named with its address, whatever the client calls its error."""

from types import SimpleNamespace

import pytest

from forkline_runner.program import unreachable


class Unreachable(Exception):
    """As httpx.ConnectError and openai.APIConnectionError."""

    def __init__(self, url: str, content: bytes = b"") -> None:
        super().__init__("Connection error.")
        self.request = SimpleNamespace(url=url, content=content)


def test_the_address_and_the_model_are_named_without_a_key() -> None:
    error = Unreachable("https://me:secret@models.example:8443/chat?key=abc", b'{"model": "gpt-4o-mini"}')
    try:
        try:
            raise error
        except Unreachable as cause:
            raise RuntimeError("Connection error.") from cause
    except RuntimeError as outer:
        found = unreachable(outer)
    assert found == {"address": "https://models.example:8443/chat", "model": "gpt-4o-mini"}


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b'{"model": null}', b"\xff"])
def test_a_request_without_a_model_has_none(content: bytes) -> None:
    found = unreachable(Unreachable("http://127.0.0.1:9/v1", content))
    assert found == {"address": "http://127.0.0.1:9/v1", "model": "-"}


def test_an_answer_is_no_failed_connection() -> None:
    error = Unreachable("http://127.0.0.1:9/v1")
    setattr(error, "response", SimpleNamespace(status_code=500))  # noqa: B010
    assert unreachable(error) == {} == unreachable(ValueError("x")) == unreachable(None)

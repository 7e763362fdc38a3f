"""Webhooks: they are signed, end in time, and reach no private network."""

import json
import socket
from typing import Any

import pytest
from django.conf import LazySettings
from standardwebhooks import Webhook, WebhookVerificationError

from tests.notifications.conftest import Hook
from viewer.host import notifying
from viewer.host.notifying import NotDelivered, deliver, is_public

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def private(settings: LazySettings) -> None:
    settings.WEBHOOKS_TO_PRIVATE_ADDRESSES = True


def send(url: str) -> None:
    deliver(url, SECRET, "msg_7", "job.ended", "https://example.org/jobs/1/")


@pytest.mark.usefixtures("private")
def test_a_message_is_signed_with_its_time(hook: Hook) -> None:
    send(hook.url)
    ((path, headers, body),) = hook.received
    found = Webhook(SECRET).verify(body, headers)
    assert path == "/hook?a=1" and headers["Host"] == f"127.0.0.1:{hook.port}"
    assert (found["type"], found["data"]) == ("job.ended", {"url": "https://example.org/jobs/1/"})
    assert headers["webhook-id"] == "msg_7"
    for changed in ({"webhook-timestamp": "1700000000"}, {"webhook-id": "msg_8"}):
        with pytest.raises(WebhookVerificationError):
            Webhook(SECRET).verify(body, headers | changed)
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(json.dumps(found | {"type": "x"}), headers)


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "localhost", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0.0.0.0", "[::]"),
        *("[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]"),
        *("10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "[fe80::1]", "[fd00::1]"),
        *("[::127.0.0.1]", "[ff02::1]", "224.0.0.1", "255.255.255.255", "198.18.0.1", "[fec0::1]"),
        *("[64:ff9b:1::7f00:1]", "[2001:0:7f00:1::]", "localhost.", "127\uff0e0.0.1"),
    ],
)
def test_private_addresses_are_refused_before_a_connection(
    host: str, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: Any, **_more: Any) -> None:
        raise AssertionError("a connection")

    monkeypatch.setattr(socket, "create_connection", refuse)
    with pytest.raises(NotDelivered):
        send(f"https://{host}:{hook.port}/")
    assert not hook.received


@pytest.mark.parametrize("address", ["8.8.8.8", "2001:4860:4860::8888", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_public_addresses_are_allowed(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "url",
    [
        *("http://example.org/", "ftp://example.org/", "file:///etc/passwd", "https://", "https:///x", "x"),
        *(
            "https://a@example.org/",
            "https://example.org/\r\nX: y",
            "https://example.org:99999/",
            "https://[::1",
        ),
        "https://example.org/ x",
    ],
)
def test_other_urls_are_given_up_at_once(url: str) -> None:
    with pytest.raises(NotDelivered) as refused:
        send(url)
    assert refused.value.is_final


def resolves(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> None:
    """Have ``rebind.example`` resolve to each of these lists in turn."""
    real, waiting = socket.getaddrinfo, list(answers)

    def resolved(host: Any, port: Any, *arguments: Any, **more: Any) -> Any:
        if host != "rebind.example":
            return real(host, port, *arguments, **more)
        return [found for one in waiting.pop(0) for found in real(one, port, *arguments, **more)]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)


def test_a_name_with_one_private_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    resolves(monkeypatch, ["8.8.8.8", "127.0.0.1"])
    with pytest.raises(NotDelivered, match="private"):
        send("https://rebind.example/")


@pytest.mark.usefixtures("private")
def test_the_name_is_resolved_once(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    # A second answer would be missing.
    resolves(monkeypatch, ["127.0.0.1"])
    send(f"http://rebind.example:{hook.port}/")
    ((_path, headers, _body),) = hook.received
    assert headers["Host"] == f"rebind.example:{hook.port}"


@pytest.mark.usefixtures("private")
def test_redirects_are_not_followed(hook: Hook) -> None:
    hook.status, hook.headers = 307, {"Location": hook.url}
    with pytest.raises(NotDelivered, match="HTTP status 307"):
        send(hook.url)
    assert len(hook.received) == 1


@pytest.mark.usefixtures("private")
def test_a_slow_server_is_given_up_in_time(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifying, "MAX_SECONDS", 0.3)
    hook.is_slow = True
    with pytest.raises(NotDelivered, match="no answer"):
        send(hook.url)


@pytest.mark.usefixtures("private")
def test_a_certificate_is_checked(hook: Hook) -> None:
    with pytest.raises(NotDelivered, match="no answer"):
        send(f"https://127.0.0.1:{hook.port}/")

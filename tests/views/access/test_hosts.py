"""Only requests to allowed hosts and ports are answered, and no response is cached."""

import logging
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from checkpoint_site.middleware import requests
from checkpoint_site.middleware.requests import is_allowed
from viewer.models import Checkpoint, Run

PORT = settings.PORT
REFUSED = [
    "",
    "127.0.0.1",
    f"127.0.0.1:{PORT + 1}",
    "127.0.0.1:",
    "127.0.0.1:80",
    f"127.0.0.2:{PORT}",
    f"localhost.evil.test:{PORT}",
    f"evil.test:{PORT}",
    f"[::1]:{PORT}",
    f"127.0.0.1:{PORT}@evil.test",
    f"127.0.0.1:{PORT}:{PORT}",
    f"evil.test\n127.0.0.1:{PORT}",
    "\x00",
    "a b",
    "x" * 5_000,
]


@pytest.mark.parametrize("host", REFUSED)
def test_another_host_or_port_is_refused_with_one_line(
    client: Client, host: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "warnings", requests.Warnings())
    with caplog.at_level(logging.DEBUG):
        for address in (reverse("login"), "/static/icon.svg"):
            answer = client.get(address, headers={"host": host})
            assert answer.status_code == 400
            assert "<" not in answer.content.decode()
    (record,) = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert record.exc_info is None
    assert "\n" not in record.getMessage() and len(record.getMessage()) < 300


def test_refusals_are_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "warnings", requests.Warnings())
    for _ in range(500):
        Client().get("/", headers={"host": "evil.test"})
    assert len(caplog.records) == 1
    requests.warnings.warned_at -= 61
    Client().get("/", headers={"host": "evil.test"})
    assert "(499 more)" in caplog.records[-1].getMessage()


@pytest.mark.parametrize("host", [f"127.0.0.1:{PORT}", f"localhost:{PORT}", f"LOCALHOST:{PORT}"])
def test_allowed_hosts_are_answered(client: Client, db: None, host: str) -> None:
    assert client.get(reverse("login"), headers={"host": host}).status_code == 200


def test_ports_of_origins() -> None:
    origins = ["https://a.test", "http://b.test:8000", "https://*.c.test:8443", "http://[::1]:9000"]
    served = ["a.test", "a.test:443", "A.test.", "b.test:8000", "x.c.test:8443", "[::1]:9000"]
    others = [
        "a.test:80",
        "b.test",
        "b.test:80",
        "x.c.test",
        "xc.test:8443",
        "[::1]",
        "[::2]:9000",
        "::1:9000",
    ]
    assert [host for host in served + others if is_allowed(host, origins)] == served


def test_responses_for_users_are_not_cached(runner: Client, crew_run: Run, settings: Settings) -> None:
    checkpoint: Checkpoint = crew_run.checkpoints.latest("row")
    answers: list[Any] = [
        runner.get(reverse("locations")),
        runner.get(crew_run.get_absolute_url()),
        runner.get(reverse("run-rows", args=[crew_run.uid]), headers={"HX-Request": "true"}),
        runner.get(reverse("checkpoint-raw", args=[checkpoint.pk])),
        runner.get(reverse("inbox-count")),
        runner.get("/nowhere/"),
        runner.get(reverse("location-add")),
        runner.get(f"/login/link/?sesame=wrong&next={crew_run.get_absolute_url()}"),
        Client().get(reverse("jobs")),
        Client().get(reverse("login")),
        Client().post(reverse("login")),
        runner.post(reverse("logout")),
    ]
    assert [answer["Cache-Control"] for answer in answers] == ["no-store"] * len(answers)
    static = runner.get("/static/icon.svg")
    assert static.status_code == 200
    assert "no-store" not in static.get("Cache-Control", "")

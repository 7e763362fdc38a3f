"""``make fuzz`` writes many more comments, and shows all payloads in a browser."""

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.live_server_helper import LiveServer

from quality.fuzz import comments
from quality.fuzz.script_injection.payloads import filled, payload_forms
from tests.redaction import canaries

EVERY = 40


def test_markdown_mentions_and_secrets(db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint, people = comments.prepared(tmp_path)
    monkeypatch.setattr(comments, "HOSTILE", comments.HOSTILE[::12])
    counts = Counter[str]()
    assert comments.attack_markdown(checkpoint, people[0], counts) == []
    assert comments.attack_mentions(random.Random(2), checkpoint, people, counts, 10) == []
    assert counts["mentioned"] and counts["compared"]


def test_no_secret_is_stored(db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint, people = comments.prepared(tmp_path)
    monkeypatch.setattr(canaries, "TOKENS", dict(list(canaries.TOKENS.items())[::6]))
    monkeypatch.setattr(canaries, "TEXTS", dict(list(canaries.TEXTS.items())[::6]))
    counts = Counter[str]()
    assert comments.attack_secrets(checkpoint, people[0], counts) == []
    assert counts["secrets"] > 50


@pytest.mark.browser
def test_no_payload_runs_in_a_comment(
    live_server: LiveServer, transactional_db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    checkpoint, people = comments.prepared(tmp_path)
    payloads = {n: filled(form, n, "127.0.0.1:9") for n, form in enumerate(payload_forms()[::EVERY], 1)}
    addresses = comments.write_payloads(checkpoint, people[0], payloads)
    client = Client()
    client.force_login(User.objects.create_superuser("owner"))
    cookie = {
        "name": settings.SESSION_COOKIE_NAME,
        "value": client.cookies[settings.SESSION_COOKIE_NAME].value,
        **{"domain": "localhost", "path": "/", "expires": -1, "httpOnly": True, "secure": False},
    }
    state = {"cookies": [{**cookie, "sameSite": "Lax"}], "origins": []}
    for seen in asyncio.run(comments.shown(live_server.url, addresses, state)):
        assert seen.ran == seen.requests == seen.reports == seen.markup == seen.failed == []
        assert len(seen.shown["comment"]) > len(payloads) / 2

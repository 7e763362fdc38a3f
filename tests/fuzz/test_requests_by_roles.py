"""``make fuzz`` sends each sender's requests to every address, and opens many more sockets."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.test import Client
from django.urls import reverse

from quality.fuzz import routes_by_roles, sockets_by_roles
from quality.fuzz.routes_by_roles import Stage, made, senders, staged
from viewer.models import Level, Question
from viewer.records.permissions import account_named, give

# Sequences of PostgreSQL outlive what is rolled back, so the keys of two equal requests differ.
pytestmark = pytest.mark.sqlite
EVERY = 10
# Of those who may do something, one of each kind.
SENDERS = ("visitor", "person viewer", "person admin", "admin of another location", "token operator")


@pytest.fixture
def stage(db: None, tmp_path: Path, settings: LazySettings) -> Stage:
    settings.AUDIT = True
    return staged(tmp_path)


def test_another_teams_rows_change_no_response(stage: Stage, tmp_path: Path) -> None:
    counts = Counter[str]()
    for number, sender in enumerate(one for one in senders(stage, tmp_path) if one.name in SENDERS):
        chance = random.Random(number)
        routes = sorted(stage.own_addresses)[number::EVERY]
        attacks = [
            made(chance, stage, route, of_other=of_other) for route in routes for of_other in (False, True)
        ]
        assert routes_by_roles.attacked(stage, sender, attacks, counts) == []
    assert counts["requests"] > 300 and counts["2xx"] and counts["3xx"] and counts["4xx"]


def test_a_leak_is_found(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from viewer.models.roles import VisibleQuerySet

    monkeypatch.setattr(VisibleQuerySet, "visible_to", lambda rows, *_more: rows)
    (viewer,) = (one for one in senders(stage, tmp_path) if one.name == "person viewer")
    attacks = [made(random.Random(1), stage, name, of_other=True) for name in ("run", "jobs", "palette")]
    assert routes_by_roles.attacked(stage, viewer, attacks, Counter())


@pytest.mark.django_db(transaction=True)
async def test_sockets_send_nothing_of_another_team(tmp_path: Path, settings: LazySettings) -> None:
    from asgiref.sync import sync_to_async

    prepared: Any = sync_to_async(sockets_by_roles.prepared)
    stage, everyone = await prepared(tmp_path)
    counts = Counter[str]()
    for number, sender in enumerate(one for one in everyone if one.name in SENDERS):
        assert await sockets_by_roles.attacked(stage, sender, random.Random(number), counts) == []
    assert counts["quiet"] and counts["refused"]


def test_an_error_page_of_an_address_without_data_counts_only_own_rows(stage: Stage) -> None:
    user = account_named("eve")
    give(user, Level.OPERATOR, stage.own)
    client = Client()
    client.force_login(user)
    own = Question.objects.filter(job__location=stage.own).count()
    assert 0 < own < Question.objects.count()
    page = client.get(reverse("metrics"))
    assert page.status_code == 404
    assert f'inbox-count number">{own}<' in page.content.decode()

"""Pruning in the browser and at the terminal."""

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.urls import reverse

from tests.imported import imported_location
from tests.real_stores import copy_of
from viewer.host.locations.pruning import plan_prune
from viewer.host_requests import PruneRules
from viewer.models import Location
from viewer.records.accounts import teammate

pytestmark = pytest.mark.django_db


def browser(may: Any) -> Client:
    client = Client()
    client.force_login(teammate("ada", may))
    return client


def test_a_person_sees_the_list_confirms_it_and_it_is_deleted(folder: Location) -> None:
    client, address = browser("run"), reverse("prune", args=[folder.uid])
    html = client.get(address, {"days": "0"}).content.decode()
    plan = plan_prune(folder, PruneRules(days=0))
    assert all(row.source_key in html for row in plan.rows) and "Fork points" in html
    form = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', html))
    form.pop("csrfmiddlewaretoken", None)
    assert form["digest"] == plan.digest
    assert client.post(address, {**form, "digest": "1" * 64}).status_code == 422
    assert Path(folder.path, plan.rows[0].source_key).exists()
    said = client.post(address, form, follow=True).content.decode()
    assert f"Deleted {len(plan.rows)} checkpoint" in said and plan.rows[0].source_key in said
    assert not any(Path(folder.path, row.source_key).exists() for row in plan.rows)
    assert client.post(address, form).status_code == 422


def test_a_reader_sees_and_deletes_nothing(folder: Location) -> None:
    address = reverse("prune", args=[folder.uid])
    assert browser("view").get(address).status_code == 403
    assert browser("view").post(address, {"days": "0"}).status_code == 403


def test_without_rules_nothing_can_be_confirmed(folder: Location) -> None:
    client, address = browser("run"), reverse("prune", args=[folder.uid])
    assert 'name="digest"' not in client.get(address).content.decode()
    assert client.post(address, {"digest": ""}).status_code == 422
    assert client.post(address, {"days": "-1", "digest": ""}).status_code == 422


def test_pruning_is_offered_where_it_is_possible(folder: Location, tmp_path: Path) -> None:
    threads = imported_location(copy_of("langgraph/lg12.db", tmp_path / "threads"))
    for location, offered in ((folder, "Prune checkpoints"), (threads, "Delete stored copies")):
        address = reverse("prune", args=[location.uid])
        page = browser("run").get(location.get_absolute_url()).content.decode()
        assert address in page and offered in page
        assert address not in browser("view").get(location.get_absolute_url()).content.decode()


def test_threads_are_refused_with_the_reason(tmp_path: Path, settings: Any) -> None:
    settings.CHECKPOINT_ROOTS = [tmp_path]
    location = imported_location(copy_of("langgraph/lg12.db", tmp_path))
    html = browser("run").get(reverse("prune", args=[location.uid]), {"days": "0"}).content.decode()
    assert "checkpoint saver" in html and 'name="digest"' not in html


def listed(*arguments: str) -> dict[str, Any]:
    out = StringIO()
    call_command("checkpoints", "prune", *arguments, "--json", stdout=out)
    return dict(json.loads(out.getvalue()))


def test_the_terminal_lists_unless_the_digest_is_confirmed(folder: Location) -> None:
    found = listed(folder.path, "--days", "0")
    assert found == listed(folder.path, "--days", "0", "--dry-run", "--confirm", found["digest"])
    assert all(Path(folder.path, key).exists() for key in found["checkpoints"])
    with pytest.raises(CommandError, match="has changed"):
        listed(folder.path, "--latest", "1", "--confirm", "0")
    done = listed(folder.path, "--days", "0", "--confirm", found["digest"])
    assert done["deleted"] == len(found["checkpoints"]) > 0
    assert not any(Path(folder.path, key).exists() for key in found["checkpoints"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Choose an age"),
        (("--days", "-1"), "--days must be a whole number of 0 or more"),
        (("--days", "9" * 20), "--days must be a whole number of 36500 or less"),
        (("--latest", "0"), "--latest must be a whole number of 1 or more"),
    ],
)
def test_the_terminal_needs_a_rule(folder: Location, arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        listed(folder.path, *arguments)

"""A hidden value is shown to an admin for one view and a reason, which are recorded."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse

from tests.terminal import Terminal
from tests.views.forking import CREW, SECRET, stored
from viewer.host.permitted import checked
from viewer.host_requests import HostRefusal, RevealValue, ask
from viewer.models import AuditEntry, Checkpoint, Location
from viewer.records.accounts import teammate
from viewer.records.audit import Actor, ActorKind, acting, acting_for

POINTER = "/entities/0/checkpoint_inputs/api_key"
FORM = {"pointer": POINTER, "reason": "rotate"}


@pytest.fixture(autouse=True)
def _audited(settings: LazySettings) -> None:
    settings.AUDIT = True


@pytest.fixture
def address(checkpoint: Checkpoint) -> str:
    return reverse("hidden-reveal", args=[checkpoint.pk])


def revealed() -> list[tuple[str, str, str]]:
    found = AuditEntry.objects.filter(action="revealed").order_by("pk")
    return list(found.values_list("actor", "detail", "result"))


def stored_texts() -> str:
    """All rows of all tables as one text."""
    with connection.cursor() as cursor:
        found = []
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            found.append(str(cursor.fetchall()))
    return "\n".join(found)


def test_a_value_is_shown_once_and_recorded(runner: Client, checkpoint: Checkpoint, address: str) -> None:
    listed = runner.get(reverse("hidden-values", args=[checkpoint.pk])).content.decode()
    assert ".entities[0].checkpoint_inputs.api_key" in listed and SECRET not in listed
    shown = runner.post(address, FORM)
    assert shown.content.decode().count(SECRET) == 1
    assert shown["Cache-Control"] == "no-store"
    assert revealed() == [("runner", "rotate: .entities[0].checkpoint_inputs.api_key", "done")]
    assert SECRET not in runner.get(reverse("hidden-values", args=[checkpoint.pk])).content.decode()
    assert SECRET not in stored_texts()
    tab = runner.get(checkpoint.get_absolute_url() + "&tab=raw").content.decode()
    assert reverse("hidden-values", args=[checkpoint.pk]) in tab and SECRET not in tab


@pytest.mark.parametrize(
    "form",
    [
        {"pointer": POINTER},
        {"pointer": POINTER, "reason": "because"},
        {"pointer": "/entities/0/name", "reason": "rotate"},
        {"pointer": "/entities/9", "reason": "rotate"},
        {"pointer": "", "reason": "rotate"},
        {"reason": "rotate"},
    ],
)
def test_nothing_is_shown_without_a_reason_or_of_what_is_not_hidden(
    runner: Client, address: str, form: dict[str, str]
) -> None:
    answer = runner.post(address, form)
    assert answer.status_code == 422 and SECRET not in answer.content.decode()
    assert {result for _, _, result in revealed()} == {"not_done"}


def test_a_refused_reveal_keeps_what_was_chosen(runner: Client, address: str) -> None:
    page = runner.post(address, FORM | {"reason": ""}).content.decode()
    assert re.search(rf'value="{POINTER}"[^>]*\schecked', page)
    page = runner.post(address, FORM | {"pointer": "/entities/9"}).content.decode()
    assert '<option value="rotate" selected>' in page and " checked" not in page


def test_the_source_decides_what_is_hidden(runner: Client, checkpoint: Checkpoint, address: str) -> None:
    source = Path(checkpoint.source)
    body = json.loads(source.read_text())
    body["entities"][0]["checkpoint_inputs"]["api_key"] = None
    source.write_text(json.dumps(body))
    answer = runner.post(address, FORM)
    assert answer.status_code == 422 and "Nothing is hidden at this place" in answer.content.decode()
    source.unlink()
    assert runner.post(address, FORM).status_code == 422
    assert {result for _, _, result in revealed()} == {"not_done"}


def test_without_an_audit_trail_nothing_is_revealed(
    runner: Client, checkpoint: Checkpoint, address: str, settings: LazySettings
) -> None:
    settings.AUDIT = False
    assert runner.post(address, FORM).status_code == 404
    page = runner.get(checkpoint.get_absolute_url() + "&tab=raw").content.decode()
    assert reverse("hidden-values", args=[checkpoint.pk]) not in page


@pytest.mark.parametrize("level", [1, 2])
def test_only_an_admin_reveals(
    client: Client, checkpoint: Checkpoint, address: str, location: Location, level: int
) -> None:
    person = teammate("eve")
    person.roles.all().update(level=level)
    client.force_login(person)
    assert client.post(address, FORM).status_code == 403
    page = client.get(checkpoint.get_absolute_url() + "&tab=raw").content.decode()
    assert reverse("hidden-values", args=[checkpoint.pk]) not in page


def _actor(user: User, **more: Any) -> Actor:
    return Actor(ActorKind.USER, user.get_username(), "", user, **more)


def test_a_host_reveals_nothing_through_a_link_or_to_another_machine(checkpoint: Checkpoint) -> None:
    admin, request = teammate("ada", "run"), RevealValue(checkpoint.pk, POINTER)
    for actor in (_actor(admin, is_through_link=True), _actor(teammate("eve")), Actor(ActorKind.VISITOR, "")):
        token = acting.set(actor)
        try:
            with pytest.raises(HostRefusal):
                ask(request)
        finally:
            acting.reset(token)
    with acting_for({"kind": "user", "name": "ada", "user": admin.pk}):
        assert ask(request) == SECRET
        with pytest.raises(HostRefusal):
            checked(request)


def test_the_keys_of_a_location_are_listed_without_their_values(
    runner: Client, location: Location, terminal: Terminal
) -> None:
    first, last = stored(location, CREW), stored(location, CREW | {"note": f"curl -u ada:{SECRET}"})
    page = runner.get(reverse("location-keys", args=[location.uid])).content.decode()
    assert ".entities[].checkpoint_inputs.api_key" in page and ".entities[].note" in page
    assert SECRET not in page and last.get_absolute_url().replace("&", "&amp;") in page
    found = terminal.document("keys", location.path)
    assert SECRET not in json.dumps(found) and (found["read"], found["checkpoints"]) == (2, 2)
    keys = {one["place"]: one for one in found["keys"]}
    key, text = keys[".entities[].checkpoint_inputs.api_key"], keys[".entities[].note"]
    assert (key["kind"], key["field"], key["checkpoints"]) == ("field", "api_key", 2)
    assert (key["first"]["checkpoint"], key["last"]["checkpoint"]) == (
        first.checkpoint_id,
        last.checkpoint_id,
    )
    assert key["last"]["path"] == ".entities[0].checkpoint_inputs.api_key" and key["first_seen"]
    assert (text["kind"], text["checkpoints"]) == ("text", 1)
    assert SECRET not in terminal.text("keys", location.path)


def test_a_key_of_many_events_is_one_place(runner: Client, crew_location: Location) -> None:
    page = runner.get(reverse("location-keys", args=[crew_location.uid])).content.decode()
    places = re.findall(r'<span class="mono">(.+?)</span>', page)
    assert ".event_record.nodes[].event.agent.llm.api_key" in places
    assert len(places) == len(set(places)) and not any("-" in place for place in places)

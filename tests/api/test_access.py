"""Every address of the HTTP interface, with each role: what a token may not see does not exist."""

from pathlib import Path

import pytest
from django.conf import LazySettings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.api.conftest import api_addresses, program_of, with_role, with_token
from tests.views.access.test_roles import HIDDEN, missing, rule_of
from tests.views.access.test_urls import API, rows
from tests.views.forking import CREW, create_location, stored
from viewer.models import AuditEntry, Checkpoint, Job, Level, Location, Question, Run

LEVELS = tuple(Level)


@pytest.fixture
def addresses(checkpoint: Checkpoint) -> dict[str, str]:
    return api_addresses(checkpoint)


@pytest.fixture
def hidden(addresses: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """Return the addresses of another team's location."""
    found = api_addresses(stored(create_location(tmp_path / HIDDEN), CREW))
    others = Location.objects.filter(path__contains=HIDDEN)
    Run.objects.filter(location__in=others).update(name=HIDDEN, key=HIDDEN)
    Checkpoint.objects.filter(location__in=others).update(branch=HIDDEN, name=HIDDEN)
    Job.objects.filter(location__in=others).update(branch=HIDDEN, result=HIDDEN)
    Question.objects.filter(job__location__in=others).update(prompt=HIDDEN)
    return found


def send(client: Client, name: str, address: str) -> tuple[int, str]:
    if name in READS:
        response = client.get(address)
    else:
        body = {"text": "yes"} if name == "api-answer" else {}
        response = client.post(address, body, content_type="application/json")
    assert response["Content-Type"].startswith("application/json") or response.status_code == 200, name
    return response.status_code, response.content.decode()


# The names of the routes that are read. Others are sent.
READS = {name for name in API if rule_of(name).right == "view" and not name.startswith("api-command-")}


def test_each_route_is_visited(addresses: dict[str, str]) -> None:
    assert set(addresses) == API


def test_without_a_token_there_is_nothing(addresses: dict[str, str], location: Location) -> None:
    session = Client()
    session.force_login(with_role("ada", Level.ADMIN))
    before = rows()
    for client in (session, with_token("fkl_" + "a" * 43)):
        for name, address in addresses.items():
            status, text = send(client, name, address)
            assert status in (401, 429) and location.path not in text, name
    assert rows() == before


def test_another_teams_objects_do_not_exist(
    addresses: dict[str, str], hidden: dict[str, str], location: Location
) -> None:
    clients = [
        program_of(with_role("vera", Level.VIEWER, location), Level.VIEWER),
        program_of(with_role("lea", Level.ADMIN, location), Level.ADMIN),
        # Of somebody who may do everything, for one location only.
        program_of(with_role("admin", Level.ADMIN), Level.ADMIN, [location]),
    ]
    before = rows()
    for client in clients:
        for name, address in hidden.items():
            if address == addresses[name]:
                status, text = send(client, name, address)
                assert HIDDEN not in text, name
                continue
            with CaptureQueriesContext(connection) as queries:
                status, text = send(client, name, address)
            with CaptureQueriesContext(connection) as of_missing:
                unknown = send(client, name, missing(address))
            assert status in (403, 404) and (status, text) == unknown, (name, status, text)
            assert len(queries) == len(of_missing), name
    assert rows() == before


def test_lists_show_only_what_the_token_sees(
    addresses: dict[str, str], hidden: dict[str, str], location: Location
) -> None:
    admin = with_role("admin", Level.ADMIN)
    whole, part = program_of(admin, Level.VIEWER), program_of(admin, Level.VIEWER, [location])
    for name in ("api-locations", "api-jobs", "api-questions"):
        key = name.removeprefix("api-")
        assert len(whole.get(addresses[name]).json()[key]) == 2, name
        assert len(part.get(addresses[name]).json()[key]) == 1, name


def test_a_role_allows_what_the_table_of_rights_says(addresses: dict[str, str], location: Location) -> None:
    admin = with_role("admin", Level.ADMIN)
    for level in LEVELS:
        client = program_of(admin, level)
        for name, address in addresses.items():
            status, _text = send(client, name, address)
            assert (status == 403) == (level < rule_of(name).right.level), (name, level, status)
            assert name not in READS or status == 200, (name, level, status)


def test_other_methods_are_refused(addresses: dict[str, str], location: Location) -> None:
    operator = program_of(with_role("admin", Level.ADMIN))
    for name, address in addresses.items():
        wrong = operator.post if name in READS else operator.get
        assert wrong(address).status_code == 405, name
        assert operator.put(address).status_code == operator.delete(address).status_code == 405, name
    assert operator.get("/api/nothing").json().keys() == {"error"}


def test_what_is_opened_is_recorded(
    addresses: dict[str, str], viewer: Client, settings: LazySettings
) -> None:
    settings.AUDIT = True
    lists = {"api-openapi", "api-locations", "api-location", "api-runs", "api-jobs"}
    for name in sorted(READS):
        before = AuditEntry.objects.count()
        viewer.get(addresses[name])
        entry = AuditEntry.objects.last()
        assert AuditEntry.objects.count() == before + (name not in lists), name
        assert name in lists or (entry and entry.token and entry.actor == "vera"), name

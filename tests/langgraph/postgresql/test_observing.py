"""The worker asks a PostgreSQL database for its mark over one connection, and imports what has changed."""

from typing import Any

import pytest
from psycopg import Connection
from pytest_django import Settings

from tests.langgraph.postgresql.server import READER, Server
from tests.langgraph.postgresql.test_appended import add
from tests.waiting import wait_until
from viewer.host.locations import observing
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location
from viewer.host.locations.observing import observing_locations
from viewer.host.locations.sources import ImportCursor, ImportSummary
from viewer.models import Location

Owner = Connection[Any]


@pytest.fixture
def imports(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> list[str]:
    """The imports of the worker, which polls often."""
    settings.LOCATION_POLL_MILLISECONDS = 50
    made = list[str]()

    def counted(location: Location, *, wait: bool, cursor: ImportCursor | None) -> ImportSummary:
        summary = import_location(location, wait=wait, cursor=cursor)
        made.append(location.name)
        return summary

    monkeypatch.setattr(observing, "import_location", counted)
    monkeypatch.setattr(observing, "RETRY_SECONDS", 0.1)
    return made


def sessions(owner: Owner) -> list[int]:
    """Return the process ids of the sessions that read the database."""
    query = (
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND usename = %s ORDER BY pid"
    )
    return [pid for (pid,) in owner.execute(query, (READER,))]


def test_new_rows_are_imported_and_nothing_else_is(
    transactional_db: None, owner: Owner, server: Server, imports: list[str]
) -> None:
    location = open_location("postgresql:support")
    with observing_locations():
        wait_until(lambda: Location.objects.get().listed_fingerprint)
        wait_until(lambda: not location.runs.without_inputs().exists())
        wait_until(lambda: len(sessions(owner)) == 1)
        session, before = sessions(owner), len(imports)
        add(owner, 0)
        wait_until(lambda: location.runs.filter(key="t").exists())
        head = location.runs.get(key="t").head
        add(owner, 1)
        wait_until(lambda: location.runs.get(key="t").head != head)
        assert len(imports) - before <= 6
        assert session[0] in sessions(owner), "The connection stays open."
    wait_until(lambda: sessions(owner) == [])


def test_a_lost_connection_is_opened_again(transactional_db: None, owner: Owner, imports: list[str]) -> None:
    location = open_location("postgresql:support")
    with observing_locations():
        wait_until(lambda: Location.objects.get().listed_fingerprint)
        for (pid,) in owner.execute(
            "SELECT pid FROM pg_stat_activity WHERE usename = %s", (READER,)
        ).fetchall():
            owner.execute("SELECT pg_terminate_backend(%s)", (pid,))
        add(owner, 0)
        wait_until(lambda: location.runs.filter(key="t").exists())
    assert Location.objects.get().read_error is None


def test_a_database_that_is_away_is_reported_and_read_when_it_returns(
    transactional_db: None, owner: Owner, database: str, imports: list[str]
) -> None:
    location = open_location("postgresql:support")
    with observing_locations():
        wait_until(lambda: Location.objects.get().listed_fingerprint)
        owner.execute("ALTER TABLE checkpoints RENAME TO moved")
        wait_until(lambda: Location.objects.get().read_error is not None)
        owner.execute("ALTER TABLE moved RENAME TO checkpoints")
        add(owner, 0)
        wait_until(lambda: location.runs.filter(key="t").exists())
        wait_until(lambda: Location.objects.get().read_error is None)

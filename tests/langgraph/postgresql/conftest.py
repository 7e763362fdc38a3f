"""A real PostgreSQL server, and recorded databases of it as locations."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection
from pytest_django import Settings

from tests.imported import imported_location
from tests.langgraph.postgresql.server import PASSWORD, Server, running
from viewer.host.locations.importing import import_location
from viewer.models import Location

_numbers = count()


@pytest.fixture(scope="session")
def server(server_data: Path) -> Iterator[Server]:
    """A server that runs until the tests end."""
    with running("forkline-pg-", server_data) as started:
        yield started


@pytest.fixture
def database(server: Server, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> str:
    """A new recorded database, in the settings as ``support``. Its password is in the environment."""
    name = f"agents_{next(_numbers)}"
    server.restore(name)
    settings.POSTGRESQL_LOCATIONS = {"support": server.connection(name)}
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    return name


@pytest.fixture
def owner(server: Server, database: str) -> Iterator[Connection[Any]]:
    """A connection of the tables' owner to the database."""
    with server.connected(database) as connection:
        yield connection


@pytest.fixture
def added(db: None, database: str) -> Callable[[], Location]:
    """Return a function that adds the database as a location, and imports its list of threads."""

    def add() -> Location:
        location = imported_location("postgresql:support")
        import_location(location)
        return location

    return add

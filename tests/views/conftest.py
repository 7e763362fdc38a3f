"""Logged-in clients, imported copies of real stores, and runs."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.imported import imported_location
from tests.real_stores import copy_of
from tests.views.forking import CREW, create_location, stored
from viewer.access.login_links import teammate
from viewer.models import Checkpoint, Location, Run


def compact(html: str) -> str:
    """Return the HTML without line breaks and indentation, except in ``pre`` and ``textarea``."""
    parts = re.split(r"(<(?:pre|textarea)\b.*?</(?:pre|textarea)>)", html, flags=re.S)
    parts[::2] = [re.sub(r"\s*\n\s*", "\n", part) for part in parts[::2]]
    parts[::2] = [re.sub(r"(?<=>)\n|\n(?=[<>])", "", part).replace("\n", " ") for part in parts[::2]]
    return "".join(parts)


class CompactClient(Client):
    """A test client that returns compact HTML, so that tests do not depend on a template's layout."""

    def request(self, **request: Any) -> Any:
        response = super().request(**request)
        if not response.streaming and response.get("Content-Type", "").startswith("text/html"):
            response.content = compact(response.content.decode()).encode()
        return response


@pytest.fixture
def client() -> Client:
    return CompactClient()


@pytest.fixture
def reader(client: Client, db: None) -> Client:
    """Return a client logged in as a read-only user."""
    client.force_login(teammate("reader"))
    return client


@pytest.fixture
def runner(client: Client, db: None) -> Client:
    """Return a client logged in as a user who can run."""
    client.force_login(teammate("runner", "run"))
    return client


@pytest.fixture
def imported(db: None, tmp_path: Path) -> Callable[[str], Location]:
    """Return a function that imports a copy of a real store, such as ``1.15.30/json``."""
    return lambda name: imported_location(copy_of(name, tmp_path))


@pytest.fixture
def crew_location(imported: Callable[[str], Location]) -> Location:
    """Return a location with a crew of three tasks and a fork of it with an edited first output."""
    return imported("1.15.30/json")


@pytest.fixture
def crew_run(crew_location: Location) -> Run:
    return crew_location.runs.get()


@pytest.fixture
def location(db: None, tmp_path: Path) -> Location:
    """Return a location without checkpoints in a confirmed project."""
    return create_location((tmp_path / "newsroom").resolve())


@pytest.fixture
def checkpoint(location: Location) -> Checkpoint:
    """Return a checkpoint of a crew with two finished tasks and one unfinished."""
    return stored(location, CREW)


@pytest.fixture
def person(client: Client, db: None) -> User:
    """Return a user who can run and is logged in with ``client``."""
    user = teammate("ada", "run")
    client.force_login(user)
    return user

"""A location in a project, and a user who can run."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.views.forking import CREW, checked, create_location, stored
from viewer.models import Checkpoint, Location, PreflightCheck
from viewer.records.accounts import teammate


@pytest.fixture
def location(db: None, tmp_path: Path) -> Location:
    """Return a location without checkpoints in a confirmed project."""
    return create_location((tmp_path / "newsroom").resolve())


@pytest.fixture
def entity() -> dict[str, Any]:
    """Return the root entity of ``checkpoint``: a crew with two finished tasks and one unfinished."""
    return CREW


@pytest.fixture
def checkpoint(location: Location, entity: dict[str, Any]) -> Checkpoint:
    """Return an imported checkpoint with this root entity."""
    return stored(location, entity)


@pytest.fixture
def check(checkpoint: Checkpoint) -> PreflightCheck:
    """Return a finished preflight check of the checkpoint."""
    return checked(checkpoint)


@pytest.fixture
def person(client: Client, db: None) -> User:
    """Return a user who can run and is logged in with ``client``."""
    user = teammate("ada", "run")
    client.force_login(user)
    return user

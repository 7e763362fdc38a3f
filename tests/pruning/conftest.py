"""Locations of recorded stores that tests prune."""

from pathlib import Path
from typing import Any

import pytest

from tests.real_stores import copy_of
from viewer.importing import import_location, open_location
from viewer.models import Location


def imported(path: Path) -> Location:
    location = open_location(str(path))
    import_location(location)
    location.refresh_from_db()
    return location


@pytest.fixture
def folder(db: None, tmp_path: Path, settings: Any) -> Location:
    """A run of four checkpoints on ``main``, and a fork of the newest with two."""
    settings.CHECKPOINT_ROOTS = [tmp_path]
    return imported(copy_of("1.15.30/json", tmp_path))


@pytest.fixture
def database(db: None, tmp_path: Path, settings: Any) -> Location:
    settings.CHECKPOINT_ROOTS = [tmp_path]
    return imported(copy_of("1.14.1/cp.db", tmp_path))

"""Locations of recorded stores that tests prune."""

from pathlib import Path
from typing import Any

import pytest

from tests.imported import imported_location
from tests.real_stores import copy_of
from viewer.models import Location


@pytest.fixture
def folder(db: None, tmp_path: Path, settings: Any) -> Location:
    """A run of four checkpoints on ``main``, and a fork of the newest with two."""
    settings.CHECKPOINT_ROOTS = [tmp_path]
    return imported_location(copy_of("1.15.30/json", tmp_path))


@pytest.fixture
def database(db: None, tmp_path: Path, settings: Any) -> Location:
    settings.CHECKPOINT_ROOTS = [tmp_path]
    return imported_location(copy_of("1.14.1/cp.db", tmp_path))

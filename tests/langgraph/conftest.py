"""Recorded databases of LangGraph, as locations."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.imported import imported_location
from viewer.host.locations import completing
from viewer.host.locations.indexing import import_run
from viewer.models import Location, Run

RECORDED = Path(__file__).resolve().parents[1] / "recorded_stores" / "langgraph"
VERSIONS = ("lg02_76", "lg06", "lg12")


def copied(version: str, folder: Path) -> Path:
    """Copy a recorded database, and return the copy's path."""
    return Path(shutil.copy(RECORDED / f"{version}.db", folder / f"{version}.db"))


def opened(location: Location, thread: str) -> Run:
    """Return the run of a thread after its page was opened."""
    run = location.runs.select_related("location").get(key=thread)
    import_run(run)
    return Run.objects.get(pk=run.pk)


@pytest.fixture(autouse=True)
def _like_a_new_process() -> None:
    """Clear the times of the next attempts, since primary keys repeat between tests."""
    for remembered in (completing._retry_at, completing._unreadable):
        remembered.clear()


@pytest.fixture
def threads(db: None, tmp_path: Path) -> Callable[[str], Location]:
    """Return a function that adds a copy of a recorded database as a location."""

    def added(version: str) -> Location:
        return imported_location(copied(version, tmp_path))

    return added

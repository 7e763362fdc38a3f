"""Projects whose checkpoint savers are locations."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.langgraph.conftest import copied
from viewer.host.jobs import savers
from viewer.host.locations.adding import open_location
from viewer.models import Location, Project

SQLITE = """
import sqlite3
from langgraph.checkpoint.sqlite import SqliteSaver

def saver():
    return SqliteSaver(sqlite3.connect("{database}", check_same_thread=False))
"""


@pytest.fixture(autouse=True)
def _ended_savers() -> Iterator[None]:
    """End the processes, since primary keys repeat between tests."""
    yield
    savers.end_savers()


@pytest.fixture
def project(db: None, tmp_path: Path, graph_python: Path) -> Callable[[str], Location]:
    """Return a function that adds the saver ``store:saver`` of a confirmed project with this module."""

    def added(source: str, *, is_confirmed: bool = True) -> Location:
        folder = tmp_path / "project"
        folder.mkdir(exist_ok=True)
        (folder / "store.py").write_text(source)
        row = Project.objects.create(folder=str(folder), interpreter=str(graph_python))
        if is_confirmed:
            row.confirm(None)
        location = open_location(f"saver:{folder}:store:saver")
        assert location.project == row
        return location

    return added


@pytest.fixture
def recorded(project: Callable[[str], Location], tmp_path: Path) -> Location:
    """A saver on a recorded database of the newest version."""
    return project(SQLITE.format(database=copied("lg12", tmp_path)))

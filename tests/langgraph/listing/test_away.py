"""The page of a thread whose database is away."""

from pathlib import Path

import pytest
from django.test import Client

from tests.imported import imported_location
from tests.langgraph.conftest import opened
from tests.langgraph.copied import written_thread
from tests.langgraph.databases import Database, packed
from viewer.data_folder.locks import serving
from viewer.messages.message import UserMessage
from viewer.models import Location, Run


@pytest.fixture
def database(tmp_path: Path) -> Database:
    """A thread of three checkpoints."""
    return written_thread(tmp_path, 3)


@pytest.fixture
def run(db: None, database: Database) -> Run:
    """The listed thread of a location that could not be read since, and to which a checkpoint was added."""
    run = opened(imported_location(database.path), "t")
    Location.objects.update(read_error=UserMessage("store.disappeared"))
    database.add(3, packed({"value": 3}))
    return run


def test_it_opens_from_its_rows_while_the_worker_waits_for_the_database(run: Run, reader: Client) -> None:
    with serving(1):
        page = reader.get(run.get_absolute_url())
    assert page.status_code == 200 and run.checkpoints.count() == 3
    assert "disappeared" in page.content.decode()


def test_it_is_listed_again_if_no_worker_does_that(run: Run, reader: Client) -> None:
    assert reader.get(run.get_absolute_url()).status_code == 200
    assert run.checkpoints.count() == 4

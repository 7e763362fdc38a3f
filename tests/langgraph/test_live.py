"""A database that another process writes to meanwhile."""

import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client

from tests.imported import imported_location
from tests.langgraph.conftest import opened
from tests.langgraph.databases import Database, packed
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location
from viewer.models import Location
from viewer.records.bodies import body_of

ROOT = Path(__file__).resolve().parents[2]
WRITER = """
import sys, time
from tests.langgraph.databases import Database, packed
database = Database(sys.argv[1], "PRAGMA journal_mode=WAL;")
for number in range(1, 4000):
    database.add(number, packed({"value": number}))
    print(number, flush=True)
    time.sleep(0.002)
"""
pytestmark = pytest.mark.django_db


@pytest.fixture
def written(tmp_path: Path) -> Iterator[tuple[Location, "subprocess.Popen[str]"]]:
    """A location, and the process that appends to its only thread."""
    database = Database(tmp_path / "threads.db")
    database.connection.execute("PRAGMA journal_mode=WAL")
    database.add(0, packed({"value": 0}))
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, database.path], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    location = open_location(database.path)
    yield location, writer
    writer.kill()
    writer.wait()
    database.connection.close()


def test_a_growing_thread_is_followed_while_it_is_written(
    written: tuple[Location, "subprocess.Popen[str]"],
) -> None:
    location, writer = written
    assert writer.stdout
    counts: list[int] = []
    deadline = time.monotonic() + 60
    while len(counts) < 4 and time.monotonic() < deadline:
        # Whatever was reported before an import is in it.
        reported = int(writer.stdout.readline())
        assert import_location(location).read_error is None
        run = opened(location, "t")
        assert run.checkpoint_count > reported
        if not counts or run.checkpoint_count > counts[-1]:
            counts.append(run.checkpoint_count)
        newest = run.checkpoints.latest("row")
        assert newest.step is not None
        assert body_of(newest)["checkpoint"]["channel_values"]["value"] == newest.step + 1
    assert len(counts) == 4


def test_reading_never_locks_out_the_writer(
    written: tuple[Location, "subprocess.Popen[str]"],
) -> None:
    location, writer = written
    for _round in range(10):
        import_location(location)
        opened(location, "t")
        assert writer.poll() is None


def test_an_interrupt_without_a_new_checkpoint_changes_the_status(tmp_path: Path, reader: Client) -> None:
    database = Database(tmp_path / "threads.db")
    database.add(0, packed({"value": 0}))
    location = imported_location(database.path)
    assert opened(location, "t").status == "completed"
    revision = Location.objects.get().revision
    database.write(0, -3, "__interrupt__", b"\xc0")
    assert import_location(location).is_news
    assert location.runs.get().status == "waiting"
    assert Location.objects.get().revision > revision
    assert opened(location, "t").checkpoints.get().trigger == "loop_waiting"
    database.write(0, 0, "value", b"\x01")
    import_location(location)
    assert opened(location, "t").status == "completed"


def test_a_deleted_thread_disappears(tmp_path: Path) -> None:
    database = Database(tmp_path / "threads.db")
    database.add(0, packed({"value": 0}))
    database.add(1, packed({"value": 0}), thread_id="other")
    location = imported_location(database.path)
    assert location.runs.count() == 2
    with sqlite3.connect(database.path) as connection:
        connection.execute("DELETE FROM checkpoints WHERE thread_id = 'other'")
    import_location(location)
    assert [run.key for run in location.runs.all()] == ["t"]

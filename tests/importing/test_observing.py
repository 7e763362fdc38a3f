"""The worker observes all locations: what is new becomes rows without an open page."""

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from tests.langgraph.databases import Database, packed
from tests.real_stores import STORES, copy_of, write_checkpoint
from tests.waiting import wait_until
from viewer.host.locations import importing, observing
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location
from viewer.host.locations.observing import observing_locations
from viewer.host.locations.sources import ImportCursor, ImportSummary, import_lock
from viewer.models import Location
from viewer.stores.json_folder import FolderCursor, JsonFolder
from viewer.stores.protocol import Entry, ReadProblem

pytestmark = pytest.mark.usefixtures("transactional_db")
FIRST, SECOND = "20261120T233050_aaaaaaaa", "20261120T233051_bbbbbbbb"


@pytest.fixture(autouse=True)
def only_changes_are_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test pass because a location was checked in any case."""
    monkeypatch.setattr(observing, "CHECK_SECONDS", 3600.0)


@pytest.fixture
def imports(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the locations that the worker has imported."""
    made = list[str]()

    def counted(location: Location, *, wait: bool, cursor: ImportCursor | None) -> ImportSummary:
        summary = import_location(location, wait=wait, cursor=cursor)
        made.append(location.name)
        return summary

    monkeypatch.setattr(observing, "import_location", counted)
    return made


@pytest.fixture
def observed(imports: list[str]) -> Iterator[list[str]]:
    """Observe all locations during the test. Return the names of those that were imported."""
    with observing_locations():
        yield imports


@pytest.fixture
def folder(tmp_path: Path) -> Location:
    """A folder with two checkpoints of a flow."""
    return open_location(copy_of("1.15.30/flow", tmp_path))


def until_quiet(observed: list[str], location: Location) -> None:
    """Wait until a new folder is watched: it is imported a second time then."""
    wait_until(lambda: observed.count(location.name) >= 2)


def test_a_new_file_is_imported(folder: Location, observed: list[str]) -> None:
    until_quiet(observed, folder)
    assert folder.checkpoints.count() == 2
    write_checkpoint(Path(folder.path), FIRST, branch="fork/a")
    wait_until(lambda: folder.checkpoints.count() == 3)
    write_checkpoint(Path(folder.path), SECOND, branch="fork/a")
    wait_until(lambda: folder.checkpoints.count() == 4)


def test_a_new_file_of_a_large_folder_is_found_without_a_listing(
    folder: Location, imports: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "MIN_FILES", 0)
    monkeypatch.setattr(importing, "LISTING_SHARE", 1e-9)
    listings, entries = list[object](), JsonFolder.entries

    def counted(self: JsonFolder, cursor: FolderCursor | None = None) -> Iterator[Entry | ReadProblem]:
        listings.append(cursor)
        return entries(self, cursor)

    monkeypatch.setattr(JsonFolder, "entries", counted)
    with observing_locations():
        until_quiet(imports, folder)
        listings.clear()
        write_checkpoint(Path(folder.path), FIRST, branch="fork/a")
        wait_until(lambda: folder.checkpoints.count() == 3)
    assert listings == []


def test_bytes_overwritten_in_place_are_imported(folder: Location, observed: list[str]) -> None:
    until_quiet(observed, folder)
    path = next(Path(folder.path).rglob("*.json"))
    body = json.loads(path.read_text())
    body["branch"] = "renamed"
    path.write_text(json.dumps(body))
    wait_until(lambda: folder.checkpoints.filter(branch="renamed").exists())


def test_a_file_that_is_written_slowly_is_imported_once_it_is_whole(
    folder: Location, observed: list[str]
) -> None:
    until_quiet(observed, folder)
    path = write_checkpoint(Path(folder.path), FIRST)
    text = path.read_text()
    with path.open("w") as file:
        file.write(text[:100])
        file.flush()
        wait_until(folder.problems.exists)
        file.write(text[100:])
    wait_until(lambda: folder.checkpoints.count() == 3 and not folder.problems.exists())


def test_an_unchanged_location_is_not_imported_again(
    folder: Location, tmp_path: Path, observed: list[str]
) -> None:
    until_quiet(observed, folder)
    database = open_location(shutil.copy(STORES / "1.15.30/cp.db", tmp_path / "cp.db"))
    wait_until(database.checkpoints.exists)
    (Path(folder.path) / "log.txt").write_text("Another program writes here.")
    before = observed.count(folder.name)
    # The second one is only found in a later round than the first.
    write_checkpoint(tmp_path / "second", FIRST)
    second = open_location(tmp_path / "second")
    until_quiet(observed, second)
    assert (observed.count(folder.name), observed.count(database.name)) == (before, 1)


def test_a_new_row_of_a_database_is_imported(tmp_path: Path, observed: list[str]) -> None:
    database = Database(tmp_path / "threads.db")
    database.add(0, packed({"value": 0}))
    location = open_location(database.path)
    wait_until(location.runs.exists)
    before = location.runs.get().head
    database.add(1, packed({"value": 1}))
    wait_until(lambda: location.runs.get().head != before)


def test_a_folder_that_was_moved_away_is_reported_and_read_when_it_returns(
    folder: Location, observed: list[str]
) -> None:
    until_quiet(observed, folder)
    moved = Path(folder.path).rename(f"{folder.path}-moved")
    wait_until(lambda: Location.objects.get().read_error is not None)
    write_checkpoint(moved, FIRST)
    moved.rename(folder.path)
    wait_until(lambda: folder.checkpoints.count() == 3 and Location.objects.get().read_error is None)
    write_checkpoint(Path(folder.path), SECOND)
    wait_until(lambda: folder.checkpoints.count() == 4)


def test_a_location_that_reports_nothing_is_polled(
    folder: Location, imports: list[str], monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.LOCATION_POLL_MILLISECONDS = 10
    monkeypatch.setattr(observing, "is_local", lambda _path: False)
    with observing_locations():
        wait_until(lambda: len(imports) > 2)
        write_checkpoint(Path(folder.path), FIRST)
        wait_until(lambda: folder.checkpoints.count() == 3)


def test_a_requested_import_is_made_and_a_cancelled_one_is_not(folder: Location, observed: list[str]) -> None:
    until_quiet(observed, folder)
    Location.objects.get().request_import()
    wait_until(lambda: Location.objects.get().import_state == "")
    location = Location.objects.get()
    location.request_import()
    location.cancel_import()
    before = len(observed)
    write_checkpoint(Path(folder.path), FIRST)
    wait_until(lambda: len(observed) > before)
    assert Location.objects.get().import_state == Location.ImportState.CANCELLED
    assert folder.checkpoints.count() == 2


def test_an_import_that_another_process_prevented_is_made_later(
    folder: Location, observed: list[str], settings: Settings
) -> None:
    settings.LOCATION_POLL_MILLISECONDS = 10
    until_quiet(observed, folder)
    with import_lock(folder):
        before = len(observed)
        write_checkpoint(Path(folder.path), FIRST)
        wait_until(lambda: len(observed) > before)
        assert folder.checkpoints.count() == 2
    wait_until(lambda: folder.checkpoints.count() == 3)


def test_a_removed_location_is_no_longer_read(folder: Location, observed: list[str], tmp_path: Path) -> None:
    until_quiet(observed, folder)
    Location.objects.all().delete()
    write_checkpoint(tmp_path / "second", FIRST)
    second = open_location(tmp_path / "second")
    until_quiet(observed, second)
    before = observed.count(folder.name)
    write_checkpoint(Path(folder.path), FIRST)
    write_checkpoint(Path(second.path), SECOND)
    wait_until(lambda: second.checkpoints.count() == 2)
    assert observed.count(folder.name) == before


def test_a_location_that_does_not_answer_delays_no_other(
    folder: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()

    def hanging(location: Location, *, wait: bool, cursor: ImportCursor | None) -> ImportSummary:
        if location.pk == folder.pk:
            answers.wait(60)
        return import_location(location, wait=wait, cursor=cursor)

    monkeypatch.setattr(observing, "import_location", hanging)
    write_checkpoint(tmp_path / "second", FIRST)
    second = open_location(tmp_path / "second")
    with observing_locations():
        wait_until(second.checkpoints.exists)
        assert not folder.checkpoints.exists()
        answers.set()


def test_an_error_of_one_import_is_logged_and_the_next_one_follows(
    folder: Location, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failed = list[str]()

    def failing(location: Location, *, wait: bool, cursor: ImportCursor | None) -> ImportSummary:
        if not failed:
            failed.append(location.name)
            raise RuntimeError("a bug")
        return import_location(location, wait=wait, cursor=cursor)

    monkeypatch.setattr(observing, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(observing, "import_location", failing)
    with observing_locations():
        wait_until(folder.checkpoints.exists)
    assert "a bug" in caplog.text


def test_the_time_at_which_an_unchanged_location_was_compared_is_recorded(
    folder: Location, tmp_path: Path, observed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = open_location(copy_of("1.15.30/agent", tmp_path))
    until_quiet(observed, folder)
    until_quiet(observed, broken)
    shutil.rmtree(broken.path)
    wait_until(lambda: Location.objects.get(pk=broken.pk).read_error is not None)
    before = {location.pk: location.imported_at for location in Location.objects.all()}
    monkeypatch.setattr(observing, "SYNCED_SECONDS", 0.0)
    wait_until(lambda: Location.objects.get(pk=folder.pk).imported_at != before[folder.pk])
    assert Location.objects.get(pk=broken.pk).imported_at == before[broken.pk]
    assert observed.count(folder.name) == 2


def test_each_location_is_checked_after_a_while(
    folder: Location, imports: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "CHECK_SECONDS", 0.0)
    with observing_locations():
        wait_until(lambda: len(imports) > 4)

"""Repeated imports of a large folder: what is found without listing it again, and what needs a listing."""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.real_stores import copy_of, write_checkpoint
from viewer.host.locations import importing
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location
from viewer.host.locations.sources import ImportCursor, ImportSummary
from viewer.host.reading import location_reader
from viewer.models import Location, Problem
from viewer.stores import json_folder
from viewer.stores.json_folder import JsonFolder

pytestmark = pytest.mark.django_db
FIRST, SECOND, THIRD = "20261120T233050_aaaaaaaa", "20261120T233051_bbbbbbbb", "20261120T233052_cccccccc"


@pytest.fixture
def listings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The complete listings of folders that have been made. A folder of any size counts as large."""
    made: list[str] = []
    entries = JsonFolder.entries

    def counted(self: JsonFolder, *arguments: object) -> Iterator[object]:
        made.append("listing")
        return entries(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(JsonFolder, "entries", counted)
    monkeypatch.setattr(importing, "MIN_FILES", 0)
    monkeypatch.setattr(importing, "LISTING_SHARE", 1e-9)
    return made


@pytest.fixture
def location(tmp_path: Path, listings: list[str]) -> Location:
    """A location with two checkpoints of a flow, listed by a poll."""
    location = open_location(copy_of("1.15.30/flow", tmp_path))
    assert poll(location).added == 2
    listings.clear()
    return location


@pytest.fixture(autouse=True)
def cursors() -> Iterator[dict[int, ImportCursor | None]]:
    """The cursor of the last import of each location."""
    yield _cursors
    _cursors.clear()


_cursors: dict[int, ImportCursor | None] = {}


def poll(location: Location) -> ImportSummary:
    """Import a location as the worker does that observes it."""
    cursor = _cursors.pop(location.pk, None)
    summary = import_location(location, wait=False, cursor=cursor)
    _cursors[location.pk] = summary.cursor
    return summary


def keys(location: Location) -> set[str]:
    return set(location.checkpoints.filter(state="present").values_list("source_key", flat=True))


def files(location: Location) -> set[str]:
    root = Path(location.path)
    return {path.relative_to(root).as_posix() for path in root.rglob("*.json")}


def test_an_unchanged_folder_is_not_listed_again(location: Location, listings: list[str]) -> None:
    for _again in range(3):
        summary = poll(location)
        assert (summary.read, summary.is_news) == (0, False)
    assert listings == []


def test_an_added_file_is_found_without_a_listing(location: Location, listings: list[str]) -> None:
    write_checkpoint(Path(location.path), FIRST, "20261120T233049_c48bba3d")
    assert poll(location).added == 1
    assert keys(location) == files(location)
    assert location.checkpoints.get(checkpoint_id=FIRST).parent_link == "recorded"
    assert listings == []


def test_a_new_branch_in_nested_folders_is_found(location: Location, listings: list[str]) -> None:
    write_checkpoint(Path(location.path), FIRST, branch="fork/a/b")
    write_checkpoint(Path(location.path), SECOND, branch="fork/c")
    assert poll(location).added == 2
    write_checkpoint(Path(location.path), THIRD, FIRST, branch="fork/a/b")
    assert poll(location).added == 1
    assert keys(location) == files(location)
    assert listings == []


def test_a_file_added_in_the_same_step_of_a_coarse_clock_is_found(
    location: Location, listings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The times of this file system never change.
    monkeypatch.setattr(json_folder, "folder_fingerprint", lambda status: str(status.st_ino))
    poll(location)
    for checkpoint_id in (FIRST, SECOND):
        write_checkpoint(Path(location.path), checkpoint_id)
        assert poll(location).added == 1
    assert keys(location) == files(location)


def test_a_file_added_with_the_times_of_its_folder_restored_is_found(location: Location) -> None:
    folder = Path(location.path) / "main"
    for at in (0, 2_000_000_000, 10_000_000_000):
        os.utime(folder, (at, at))
        poll(location)
        write_checkpoint(Path(location.path), f"20261120T2330{50 + at % 7}_aaaaaaa{at % 7}")
        os.utime(folder, (at, at))
        poll(location)
        assert keys(location) == files(location)


def test_a_removed_file_is_pruned(location: Location, listings: list[str]) -> None:
    path = next(Path(location.path).rglob("*.json"))
    path.unlink()
    assert poll(location).pruned == 1
    assert keys(location) == files(location)
    assert listings == ["listing"]


def test_a_removed_folder_is_pruned(location: Location) -> None:
    shutil.rmtree(Path(location.path) / "main")
    assert poll(location).pruned == 2
    write_checkpoint(Path(location.path), FIRST)
    assert poll(location).added == 1
    assert keys(location) == files(location)


def test_a_file_replaced_by_another_is_read_again(location: Location) -> None:
    path = next(Path(location.path).rglob("*.json"))
    (other := path.with_suffix(".tmp")).write_text(edited(path))
    other.rename(path)
    assert poll(location).changed == 1


def test_a_file_removed_and_written_again_is_read_again(location: Location) -> None:
    path = next(Path(location.path).rglob("*.json"))
    text = edited(path)
    # The file system may give the new file the same inode.
    path.unlink()
    path.write_text(text)
    assert poll(location).changed == 1


def test_bytes_overwritten_in_place_are_found_by_the_next_listing(
    location: Location, listings: list[str], cursors: dict[int, ImportCursor | None]
) -> None:
    path = next(Path(location.path).rglob("*.json"))
    path.write_text(edited(path))
    cursor = cursors[location.pk]
    assert cursor
    cursors[location.pk] = replace(cursor, expires_at=0.0)
    assert poll(location).changed == 1
    assert listings == ["listing"]


def edited(path: Path) -> str:
    body = json.loads(path.read_text())
    body["entities"][0]["checkpoint_state"]["topic"] = "something else"
    return json.dumps(body)


def test_a_small_folder_is_listed_by_each_poll(
    location: Location, listings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "MIN_FILES", 500)
    _cursors.clear()
    path = next(Path(location.path).rglob("*.json"))
    path.write_text(edited(path))
    assert poll(location).changed == 1
    poll(location)
    assert listings == ["listing"] * 2


def test_a_half_written_file_is_read_again_until_it_is_complete(
    location: Location, listings: list[str]
) -> None:
    path = write_checkpoint(Path(location.path), FIRST)
    text = path.read_text()
    for length in (0, 100, len(text) - 1):
        path.write_text(text[:length])
        poll(location)
        assert location.problems.get().kind == Problem.Kind.WRITING
    path.write_text(text)
    assert poll(location).added == 1
    assert not location.problems.exists()
    assert keys(location) == files(location)
    assert listings == []


def test_links_are_not_followed(location: Location, tmp_path: Path) -> None:
    outside = write_checkpoint(tmp_path / "outside", FIRST).parent
    (Path(location.path) / "linked").symlink_to(outside)
    (Path(location.path) / "main" / "linked.json").symlink_to(next(outside.iterdir()))
    assert poll(location).added == 0
    assert location.problems.get().kind == Problem.Kind.FOREIGN
    assert len(keys(location)) == 2


def test_a_folder_replaced_by_a_link_is_not_followed(location: Location, tmp_path: Path) -> None:
    folder = Path(location.path) / "main"
    moved = folder.rename(tmp_path / "moved")
    folder.symlink_to(moved)
    assert poll(location).pruned == 2
    assert keys(location) == set()


def test_a_folder_that_cannot_be_listed_hides_nothing_for_long(
    location: Location, listings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = JsonFolder.names

    def denied(self: JsonFolder, key: str) -> list[tuple[str, int]]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(JsonFolder, "names", denied)
    write_checkpoint(Path(location.path), FIRST)
    assert poll(location).added == 1
    monkeypatch.setattr(JsonFolder, "names", names)
    assert len(listings) == 1


def test_a_location_that_moved_away_is_read_again_when_it_returns(location: Location, tmp_path: Path) -> None:
    moved = shutil.move(location.path, tmp_path / "moved")
    assert poll(location).read_error
    write_checkpoint(Path(moved), FIRST)
    shutil.move(moved, location.path)
    assert poll(location).added == 1
    assert keys(location) == files(location)


def test_a_failed_import_of_an_added_file_is_repeated(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(Path(location.path), FIRST)
    with monkeypatch.context() as patched:

        def failed(*_arguments: object) -> ImportSummary:
            raise OSError(28, "No space left on device")

        patched.setattr(importing, "store_listing", failed)
        assert poll(location).read_error
    assert poll(location).added == 1


def test_a_requested_import_lists_everything(location: Location, listings: list[str]) -> None:
    location.checkpoints.all().delete()
    location.request_import()
    assert poll(location).added == 2
    assert listings == ["listing"]
    assert keys(location) == files(location)


def test_many_new_files_are_listed(
    location: Location, listings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(location_reader, "MAX_ADDED", 1)
    for checkpoint_id in (FIRST, SECOND):
        write_checkpoint(Path(location.path), checkpoint_id)
    assert poll(location).added == 2
    assert listings == ["listing"]

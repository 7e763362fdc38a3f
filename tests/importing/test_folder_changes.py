"""The kernel reports which folders have changed, at any depth."""

import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from viewer.host.locations import observing
from viewer.host.locations.observing import FolderChanges, is_local

FIRST, SECOND = 1, 2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (folder := tmp_path / "checkpoints").mkdir()
    return folder


@pytest.fixture
def changes(folder: Path, tmp_path: Path) -> Iterator[FolderChanges]:
    with closing(FolderChanges(skipped=folder / "own")) as made:
        assert made.add(FIRST, str(folder))
        yield made


def reported(changes: FolderChanges) -> set[int]:
    """Return what is reported until nothing more follows."""
    found = changes.wait(60)
    while more := changes.wait(0):
        found |= more
    return found


def test_a_written_moved_or_removed_file_is_reported_once(changes: FolderChanges, folder: Path) -> None:
    file = folder / "one.json"
    for change in (
        lambda: file.write_text("{}"),
        lambda: file.write_text("{ }"),
        lambda: file.rename(folder / "two.json"),
        lambda: (folder / "two.json").unlink(),
    ):
        change()
        assert reported(changes) == {FIRST}
        assert changes.wait(0) == set()


def test_files_in_new_folders_are_reported_at_any_depth(changes: FolderChanges, folder: Path) -> None:
    (folder / "fork" / "a" / "b").mkdir(parents=True)
    reported(changes)
    (folder / "fork" / "a" / "b" / "one.json").touch()
    assert reported(changes) == {FIRST}
    (folder / "fork").rename(folder / "other")
    reported(changes)
    (folder / "other" / "a" / "b" / "c").mkdir()
    assert reported(changes) == {FIRST}
    (folder / "other" / "a" / "b" / "c" / "two.json").touch()
    assert reported(changes) == {FIRST}


def test_other_files_and_the_own_data_folder_are_not_reported(changes: FolderChanges, folder: Path) -> None:
    (folder / "log.txt").write_text("a line")
    (folder / "own").mkdir()
    reported(changes)
    (folder / "own" / "one.json").touch()
    (folder / "log.txt").write_text("another line")
    assert changes.wait(0) == set()


def test_links_are_not_followed(changes: FolderChanges, folder: Path, tmp_path: Path) -> None:
    (outside := tmp_path / "outside").mkdir()
    (folder / "linked").symlink_to(outside)
    reported(changes)
    (outside / "one.json").touch()
    assert changes.wait(0) == set()


def test_folders_may_contain_one_another(changes: FolderChanges, folder: Path) -> None:
    (inner := folder / "inner").mkdir()
    reported(changes)
    assert changes.add(SECOND, str(inner))
    (inner / "one.json").touch()
    assert reported(changes) == {FIRST, SECOND}
    changes.remove(FIRST)
    (inner / "two.json").touch()
    assert reported(changes) == {SECOND}
    (folder / "three.json").touch()
    assert changes.wait(0) == set()


def test_a_removed_or_moved_folder_is_reported(changes: FolderChanges, folder: Path, tmp_path: Path) -> None:
    folder.rename(tmp_path / "moved")
    assert reported(changes) == {FIRST}
    (tmp_path / "moved").rmdir()
    assert reported(changes) == {FIRST}
    folder.mkdir()
    assert changes.add(FIRST, str(folder))
    (folder / "one.json").touch()
    assert reported(changes) == {FIRST}


def test_lost_events_count_as_changes_of_all_folders(changes: FolderChanges, folder: Path) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    os.close(os.open(folder / "one.json", os.O_CREAT))
    for _number in range(limit // 4 + 1):
        # Two events each, and two of one kind in a row would count as one.
        (folder / "one.json").rename(folder / "two.json")
        (folder / "two.json").rename(folder / "one.json")
    assert FIRST in reported(changes)


def test_a_folder_with_too_many_folders_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observing, "MAX_FOLDERS", 3)
    for name in "abc":
        (folder / name).mkdir()
    with closing(FolderChanges(folder / "own")) as changes:
        assert not changes.add(FIRST, str(folder))
        assert FIRST not in changes
        (folder / "one.json").touch()
        assert changes.wait(0) == set()


def test_a_folder_that_grows_too_large_is_no_longer_watched(
    changes: FolderChanges, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "MAX_FOLDERS", 1)
    (folder / "one-more").mkdir()
    assert reported(changes) == {FIRST}
    assert FIRST not in changes


def test_without_notifications_waiting_takes_its_time(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    with closing(FolderChanges(folder / "own")) as changes:
        assert not changes.add(FIRST, str(folder))
        began = time.monotonic()
        assert changes.wait(0.05) == set()
        assert time.monotonic() - began >= 0.05


def test_the_innermost_file_system_decides_whether_a_path_is_local() -> None:
    assert is_local("/dev/shm/checkpoints")
    assert not is_local("/proc/self")

"""When a folder that was listed before counts as unchanged."""

from pathlib import Path

from viewer.stores.json_folder import MAX_STEP_SECONDS, FolderCursor, JsonFolder
from viewer.stores.protocol import ReadLimits


class Clock:
    """A monotonic clock that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_folder_that_has_just_changed_is_listed_again() -> None:
    clock = Clock()
    known = FolderCursor(clock)
    assert known.add("main", "1", [("a.json", 1)]) == ["a.json"]
    assert not known.is_unchanged("main", "1")
    clock.now += MAX_STEP_SECONDS
    # Between the listing and now, a file may have been added within the same step of the folder's clock.
    assert not known.is_unchanged("main", "1")
    assert known.add("main", "1", [("a.json", 1), ("b.json", 2)]) == ["b.json"]


def test_a_folder_listed_long_after_its_change_is_unchanged_until_its_fingerprint_differs() -> None:
    clock = Clock()
    known = FolderCursor(clock)
    known.add("main", "1", [("a.json", 1)])
    clock.now += MAX_STEP_SECONDS + 0.1
    known.add("main", "1", [("a.json", 1)])
    assert known.is_unchanged("main", "1")
    clock.now += 3600
    assert known.is_unchanged("main", "1")
    assert not known.is_unchanged("main", "2")


def test_a_new_fingerprint_has_to_age_again() -> None:
    clock = Clock()
    known = FolderCursor(clock)
    known.add("main", "1", [])
    clock.now += 60
    known.add("main", "2", [("a.json", 1)])
    assert not known.is_unchanged("main", "2")


def test_removed_and_replaced_names_need_a_listing() -> None:
    known = FolderCursor()
    known.add("main", "1", [("a.json", 1), ("b.json", 2)])
    assert known.add("main", "2", [("a.json", 1)]) is None
    known.add("main", "3", [("a.json", 1), ("b.json", 2)])
    assert known.add("main", "4", [("a.json", 1), ("b.json", 3)]) is None


def test_a_change_that_no_name_explains_needs_a_listing() -> None:
    known = FolderCursor()
    known.add("main", "1", [("a.json", 1)])
    assert known.add("main", "2", [("a.json", 1)]) is None


def test_trusted_folders_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "main").mkdir()
    (tmp_path / "main" / "a.json").write_text("{}")
    clock = Clock()
    known = FolderCursor(clock)
    for _listing in range(2):
        with JsonFolder(tmp_path, ReadLimits(), []) as folder:
            list(folder.entries(known))
        clock.now += MAX_STEP_SECONDS + 1

    class Unreadable(JsonFolder):
        def names(self, key: str) -> list[tuple[str, int]]:
            raise AssertionError(key)

    with Unreadable(tmp_path, ReadLimits(), []) as folder:
        assert folder.added(known) == []
    (tmp_path / "main" / "b.json").write_text("{}")
    with JsonFolder(tmp_path, ReadLimits(), []) as folder:
        assert folder.added(known) == ["main/b.json"]

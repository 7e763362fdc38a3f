"""The newest files of a folder, of which a large one is not listed completely."""

import os
from pathlib import Path

import pytest

from viewer.models import Checkpoint, Problem
from viewer.stores import json_folder
from viewer.stores.json_folder import JsonFolder
from viewer.stores.protocol import Entry, ReadLimits

CHANGED = {"main": 1_000, "fork/first": 2_000, "fork/second": 3_000, "fork": 4_000}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Three branches with two files each, which changed in this order. The names of ``main`` are the last."""
    for branch, names in {"main": "89", "fork/first": "16", "fork/second": "25"}.items():
        (tmp_path / branch).mkdir(parents=True)
        for name in names:
            (tmp_path / branch / f"2026010{name}T000000.json").touch()
    for folder, seconds in CHANGED.items():
        os.utime(tmp_path / folder, (seconds, seconds))
    return tmp_path


def newest(store: Path, limit: int) -> list[str]:
    """The branch and the day of the newest files."""
    with JsonFolder(store, ReadLimits(), []) as folder:
        found = [item.key for item in folder.newest(limit) if isinstance(item, Entry)]
    return [f"{key.rpartition('/')[0]} {key[-13]}" for key in found]


def test_the_last_names_of_all_folders_are_the_newest(store: Path) -> None:
    assert newest(store, 3) == ["fork/first 6", "main 8", "main 9"]
    assert len(newest(store, 100)) == 6


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (1, ["fork/second 5"]),
        (3, ["fork/second 2", "fork/second 5", "fork/first 6"]),
        (5, ["fork/second 5", "fork/first 6", "main 8", "main 9"]),
    ],
)
def test_recently_changed_folders_of_a_large_location_are_enough(
    store: Path, monkeypatch: pytest.MonkeyPatch, limit: int, expected: list[str]
) -> None:
    monkeypatch.setattr(json_folder, "MAX_SEARCHED", 1)
    assert newest(store, limit)[-len(expected) :] == expected


def test_no_key_is_longer_than_its_column(store: Path) -> None:
    folder = os.open(store, os.O_RDONLY)
    # A name of bytes that are not UTF-8 is shown with escapes.
    for name in ("b" * 255, "c" * 255, "d" * 255, "e" * 255, os.fsdecode(b"\xe9" * 255)):
        os.mkdir(name, dir_fd=folder)
        inner = os.open(name, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
        for file in ("20270101T000000.json", os.fsdecode(b"\xe9" * 250 + b".json")):
            os.close(os.open(file, os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    os.close(folder)
    with JsonFolder(store, ReadLimits(), []) as opened:
        listed = [*opened.entries(), *opened.newest(100)]
    longest = Checkpoint._meta.get_field("source_key").max_length
    assert longest == Problem._meta.get_field("source_key").max_length == json_folder.MAX_KEY
    assert all(len(item.key) <= longest for item in listed)
    assert sum("b" * 255 in item.key for item in listed) > 4


def test_links_are_not_followed(store: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "20270101T000000.json").touch()
    (store / "link").symlink_to(outside)
    assert newest(store, 1) == ["main 9"]

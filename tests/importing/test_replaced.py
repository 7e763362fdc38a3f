"""Pinned locations: neither a link nor another folder at the path is read."""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from pytest_django import Settings

from tests.real_stores import copy_of, write_checkpoint
from viewer.host.locations.adding import open_location, open_write_target, write_target_at
from viewer.host.locations.importing import import_location
from viewer.host_requests import UnknownLocation
from viewer.models import Location, Project
from viewer.stores import Identity
from viewer.stores.protocol import LocationReplaced, LocationUnreadable
from viewer.stores.safe_open import found_at

pytestmark = pytest.mark.django_db
SECRET = "20270101T000000_5ec4e701"


@pytest.fixture
def roots(tmp_path: Path, settings: Settings) -> Path:
    """The only allowed folder, with a location in it and a checkpoint outside."""
    allowed = tmp_path / "allowed"
    copy_of("1.15.30/flow", allowed / "project")
    settings.CHECKPOINT_ROOTS = [allowed]
    write_checkpoint(tmp_path / "outside/1.15.30/flow", SECRET)
    return allowed


def added(roots: Path) -> Location:
    location = open_location(roots / "project/1.15.30/flow", [roots])
    assert import_location(location).added == 2
    return location


@pytest.mark.parametrize("swapped", ["project/1.15.30/flow", "project/1.15.30", "project"])
def test_a_link_in_the_path_is_not_followed(swapped: str, roots: Path) -> None:
    location = added(roots)
    (roots / swapped).rename(roots.parent / "moved")
    (roots / swapped).symlink_to(roots.parent / swapped.replace("project", "outside"))
    assert (roots / "project/1.15.30/flow/main").exists()
    summary = import_location(location)
    assert summary.read_error and "is a link now" in str(summary.read_error)
    assert sorted(location.checkpoints.values_list("state", flat=True)) == ["present", "present"]
    assert not location.checkpoints.filter(checkpoint_id=SECRET).exists()
    location.refresh_from_db()
    assert not location.replaced_by, "A link cannot be accepted."


def test_a_branch_folder_that_becomes_a_link_is_not_followed(roots: Path) -> None:
    location = added(roots)
    shutil.move(Path(location.path) / "main", roots.parent / "moved")
    (Path(location.path) / "main").symlink_to(roots.parent / "outside/1.15.30/flow/main")
    import_location(location)
    assert not location.checkpoints.filter(checkpoint_id=SECRET).exists()


def test_a_replaced_folder_is_read_only_after_a_person_accepts_it(roots: Path) -> None:
    location = added(roots)
    Path(location.path).rename(roots / "moved")
    write_checkpoint(Path(location.path), "20260101T000000_0000abcd")
    summary = import_location(location)
    assert "replaced after" in str(summary.read_error)
    location.refresh_from_db()
    assert location.replaced_by and location.checkpoints.count() == 2
    assert not location.accept_replacement("1:2:3")
    assert location.accept_replacement(location.replaced_by)
    summary = import_location(location)
    assert (summary.read_error, summary.added, summary.pruned) == (None, 1, 2)


def test_adding_the_path_again_accepts_a_replacement(roots: Path) -> None:
    location = added(roots)
    Path(location.path).rename(roots / "moved")
    write_checkpoint(Path(location.path), "20260101T000000_0000abcd")
    assert import_location(location).read_error
    again = open_location(location.path, [roots])
    assert again == location
    assert import_location(again).added == 1


def test_a_replaced_sqlite_file_is_not_read(roots: Path) -> None:
    store = copy_of("1.14.1/cp.db", roots)
    location = open_location(store, [roots])
    assert import_location(location).added == 3
    shutil.copyfile(store, other := store.with_name("other.db"))
    other.replace(store)
    assert "replaced after" in str(import_location(location).read_error)
    store.unlink()
    store.symlink_to(copy_of("1.14.1/cp.db", roots.parent / "outside"))
    assert "is a link now" in str(import_location(location).read_error)


def test_a_location_without_an_identity_is_pinned_by_its_next_import(roots: Path) -> None:
    location = added(roots)
    Location.objects.update(identity="")
    import_location(location)
    location.refresh_from_db()
    with found_at(Path(location.path), [roots]) as found:
        assert location.identity == str(found.identity)


def test_another_device_number_of_the_same_file_system_is_not_a_replacement() -> None:
    before = Identity(device=41, inode=7, filesystem=99)
    assert before.matches(Identity(device=52, inode=7, filesystem=99))
    assert not before.matches(Identity(device=52, inode=7, filesystem=100))
    assert not before.matches(Identity(device=41, inode=8, filesystem=99))
    assert not Identity(41, 7).matches(Identity(52, 7))


def test_a_path_outside_all_roots_must_not_contain_a_link(tmp_path: Path, settings: Settings) -> None:
    settings.CHECKPOINT_ROOTS = [tmp_path / "other"]
    location = open_location(copy_of("1.15.30/flow", tmp_path / "mine"))
    assert import_location(location).added == 2
    (tmp_path / "mine").rename(tmp_path / "moved")
    (tmp_path / "mine").symlink_to(tmp_path / "moved")
    assert "is a link now" in str(import_location(location).read_error)


def test_a_root_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "disk")
    (tmp_path / "disk/store").mkdir()
    with found_at(tmp_path / "root/store", [tmp_path / "root"]) as found:
        assert found.is_folder
    with pytest.raises(LocationReplaced), found_at(tmp_path / "root/store"):
        pass


def test_a_write_target_can_be_created_again_but_not_replaced(roots: Path) -> None:
    project = Project.objects.create(folder=str(roots), interpreter="/usr/bin/python3")
    location = added(roots)
    path = write_target_at(location.path, project)
    shutil.rmtree(location.path)
    location = open_write_target(path, project)
    assert import_location(location).read_error is None
    Path(location.path).rename(roots / "moved")
    Path(location.path).mkdir()
    with pytest.raises(UnknownLocation, match="replaced"):
        open_write_target(path, project)


@contextmanager
def flipped(parent: Path, away: Path, outside: Path) -> Iterator[None]:
    """Within the block, another thread replaces a folder by a link and back, again and again."""
    is_over = threading.Event()

    def flip() -> None:
        while True:
            for step in (
                lambda: parent.rename(away),
                lambda: parent.symlink_to(outside),
                parent.unlink,
                lambda: away.rename(parent),
            ):
                step()
                is_over.wait(0.002)
            if is_over.is_set():
                return

    flipping = threading.Thread(target=flip)
    flipping.start()
    try:
        yield
    finally:
        is_over.set()
        flipping.join()


def test_a_link_that_appears_during_an_import_is_not_followed(roots: Path) -> None:
    location = added(roots)
    parent, away = roots / "project/1.15.30", roots / "project/away"
    outside = roots.parent / "outside/1.15.30"
    outcomes: set[str] = set()
    with flipped(parent, away, outside):
        for _ in range(2_000):
            if len(outcomes) > 2 and "None" in outcomes:
                break
            # Have something to read each time. The folder may move away meanwhile.
            with suppress(OSError):
                for path in Path(away if not parent.exists() else parent).glob("flow/main/*.json"):
                    os.utime(path)
            outcomes.add(str(import_location(location).read_error))
    assert not location.checkpoints.filter(checkpoint_id=SECRET).exists()
    assert not location.problems.filter(source_key__contains=SECRET).exists()
    assert not location.checkpoints.exclude(state="present").exists()
    assert any("is a link now" in outcome for outcome in outcomes) and "None" in outcomes
    assert import_location(location).read_error is None


def test_an_invalid_path_is_refused_with_a_message() -> None:
    with pytest.raises(LocationUnreadable), found_at(Path("/nowhere/at/all")):
        pass

"""Smaller versions of the files that exhaust a reader, and how a reader process ends."""

from collections import Counter
from pathlib import Path

import pytest
from pytest_django import Settings

from quality.chaos.disappearing import HAPPENINGS, Found, import_while, made
from quality.fuzz.resource_exhaustion import STORES, many_rows, texts, visited, with_state
from tests.real_stores import write_checkpoint
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location
from viewer.host.reading.location_reader import LocationAddress, open_reader
from viewer.stores.protocol import Entry, Packed, ReadLimits, ReadProblem

pytestmark = pytest.mark.repeated_statements

# These take long to create.
LARGE = {"two million rows", "a log of 900 MB", "rows of 60 MB of zeros", "rows of 400 MB of zeros"}


def read(folder: Path, limits: ReadLimits) -> tuple[list[str], dict[str, ReadProblem]]:
    """Return the keys that were read, and the problems by key."""
    with open_reader(LocationAddress(folder, limits)) as store:
        entries = [item for item in store.entries() if isinstance(item, Entry)]
        results = list(store.read_all(entries, 1))
    faults = {item.key: item for item in results if isinstance(item, ReadProblem)}
    return sorted(item.key for item in results if isinstance(item, Packed)), faults


def healthy(folder: Path, count: int) -> None:
    for number in range(count):
        write_checkpoint(folder, f"20270101T{number:06d}_{number:08x}")


def test_a_slow_file_is_refused_and_the_others_are_read(tmp_path: Path) -> None:
    healthy(tmp_path, 25)
    long = with_state(b"[" + b"{}," * 4_000_000 + b"1]")
    (tmp_path / "main/20270101T000012_z.json").write_bytes(long)
    found, faults = read(tmp_path, ReadLimits(max_seconds=0.5))
    assert len(found) == 25
    assert [fault.kind for fault in faults.values()] == ["refused"]
    assert "more than 0.5 s" in str(*(fault.reason for fault in faults.values()))


def test_a_file_that_needs_too_much_memory_is_refused_and_the_others_are_read(tmp_path: Path) -> None:
    healthy(tmp_path, 25)
    (tmp_path / "main/20270101T000012_z.json").write_bytes(with_state(b'"' + b"a" * 50_000_000 + b'"'))
    found, faults = read(tmp_path, ReadLimits(max_memory=90 * 1024 * 1024))
    assert len(found) == 25
    assert [fault.kind for fault in faults.values()] == ["refused"]
    assert "memory" in str(*(fault.reason for fault in faults.values()))
    assert read(tmp_path, ReadLimits())[1] == {}


@pytest.mark.django_db
def test_every_file_is_read_or_refused(tmp_path: Path, settings: Settings) -> None:
    settings.CHECKPOINT_MAX_SECONDS = 2
    for number, (name, data) in enumerate(texts(scale=0.02)):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "20261120T000000_00000001.json").write_bytes(data)
        write_checkpoint(folder, "20261120T000001_00000002")
        found = visited(folder, healthy=1)
        assert not found.wrong, (name, found)
        assert found.worked < 4 and found.megabytes < 500, (name, found)


@pytest.mark.django_db
@pytest.mark.parametrize("name", sorted(STORES.keys() - LARGE))
def test_every_store_is_read_or_refused(name: str, tmp_path: Path) -> None:
    STORES[name](tmp_path / "store.db")
    found = visited(tmp_path / "store.db", healthy=0)
    assert found.holds and found.outcome, found


@pytest.mark.django_db
def test_a_refused_store_is_read_again_only_after_a_change(tmp_path: Path, settings: Settings) -> None:
    many_rows(8_000)(tmp_path / "store.db")
    location = open_location(tmp_path / "store.db")
    settings.CHECKPOINT_MAX_SECONDS = 0.001
    first = import_location(location)
    assert first.refused_fingerprint and first.read_error
    location.refresh_from_db()
    assert (
        location.refused_fingerprint
        == first.refused_fingerprint
        == import_location(location).refused_fingerprint
    )
    settings.CHECKPOINT_MAX_SECONDS = 5
    assert import_location(location).read_error is None
    location.refresh_from_db()
    assert location.refused_fingerprint == "" and location.problems.count() == 8_000


# Within one transaction, PostgreSQL would end a connection that is idle for so long.
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", ["folder", "store"])
@pytest.mark.parametrize("name", sorted(HAPPENINGS.keys() - {"no descriptors left"}))
def test_a_location_that_disappears_for_a_moment_loses_nothing(name: str, kind: str, tmp_path: Path) -> None:
    found = Found()
    path, count = made(tmp_path / "place", kind, 60)
    import_while(path, count, HAPPENINGS[name], found)
    assert found.holds, found
    assert found.unreadable == Counter() or found.unreadable.total() <= found.imports

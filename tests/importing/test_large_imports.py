"""Large locations: the newest checkpoints first, progress, cancelling and continuing."""

import shutil
from pathlib import Path

import pytest

from tests.imported import imported_location, observe_once
from tests.real_stores import STORES
from viewer.host.locations import completing, importing, sources
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_added, import_location
from viewer.host.reading import pool
from viewer.host_requests import JobRefused
from viewer.models import Checkpoint, Location
from viewer.records.bucket import BucketAway

pytestmark = pytest.mark.django_db
REQUESTED, CANCELLED = Location.ImportState.REQUESTED, Location.ImportState.CANCELLED


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Location:
    """A new location with more checkpoints than are shown first, stored two at a time."""
    monkeypatch.setattr(importing, "NEWEST", 2)
    monkeypatch.setattr(importing, "MAX_SLICE", 2)
    monkeypatch.setattr(importing, "MIN_SHOWN", 2)
    return open_location(shutil.copytree(STORES / "1.15.30/json", tmp_path / "large"))


def names(location: Location) -> list[str]:
    return sorted(Path(key).name for key in location.checkpoints.values_list("source_key", flat=True))


def all_names(location: Location) -> list[str]:
    return sorted(file.name for file in Path(location.path).rglob("*.json"))


def cancel_at_first_slice(location: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancel the next import once it has stored something, as a request during it does."""
    recorded = Location.record_progress

    def record_progress(self: Location, done: int, total: int) -> bool:
        if self.checkpoints.count() > before:
            Location.objects.get(pk=location.pk).cancel_import()
        return recorded(self, done, total)

    before = location.checkpoints.count()
    monkeypatch.setattr(Location, "record_progress", record_progress)


def test_the_newest_checkpoints_are_stored_first(large: Location) -> None:
    import_added(large)
    assert names(large) == all_names(large)[-2:]
    large.refresh_from_db()
    assert large.import_state == REQUESTED


def test_the_others_follow_in_the_background(large: Location) -> None:
    import_added(large)
    observe_once()
    assert names(large) == all_names(large)
    large.refresh_from_db()
    assert (large.import_state, large.import_done, large.import_total) == ("", 0, 0)


def test_inputs_and_costs_follow_in_the_background(large: Location) -> None:
    import_location(large)
    run = large.runs.get()
    assert run.tokens and (run.inputs, run.cost, run.is_described, run.is_priced) == ([], None, False, False)
    revision = large.revision
    assert completing.complete_some()
    # A step ends after a short time, which a busy machine may spend on loading the prices.
    while completing.complete_some():
        pass
    run.refresh_from_db()
    large.refresh_from_db()
    assert run.inputs == [["topic", "AI"], ["year", "2026"]] and run.cost and run.is_priced
    assert large.revision > revision


def test_rows_are_the_same_as_those_of_one_import(large: Location, tmp_path: Path) -> None:
    import_added(large)
    observe_once()
    other = imported_location(shutil.copytree(large.path, tmp_path / "other"))
    columns = ("source_key", "row", "lane", "parent_link", "parent__source_key", "is_branch_head")
    rows = [set(Checkpoint.objects.filter(location=one).values_list(*columns)) for one in (large, other)]
    assert rows[0] == rows[1]


def test_a_small_location_is_imported_at_once(large: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "NEWEST", 1000)
    import_added(large)
    assert names(large) == all_names(large)
    assert Location.objects.get(pk=large.pk).import_state == ""


def test_the_newest_rows_of_a_database_are_stored_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "NEWEST", 1)
    file = shutil.copy(STORES / "1.14.1/cp.db", tmp_path / "store.db")
    location = open_location(file)
    import_added(location)
    (first,) = location.checkpoints.all()
    import_location(location)
    assert location.checkpoints.count() == 3
    # The fingerprint begins with the number of the row.
    assert first.fingerprint.partition(":")[0] == "3"


def test_a_cancelled_import_keeps_what_it_has_stored(
    large: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_added(large)
    with monkeypatch.context() as patched:
        cancel_at_first_slice(large, patched)
        observe_once()
    large.refresh_from_db()
    assert large.import_state == CANCELLED
    assert 2 < large.checkpoints.count() == large.import_done < large.import_total == len(all_names(large))
    # The worker imports what is new, but not this.
    observe_once()
    assert large.checkpoints.count() == large.import_done


def test_a_location_that_cannot_be_read_is_not_imported_again_and_again(large: Location) -> None:
    import_added(large)
    Path(large.path).rename(f"{large.path}-moved")
    observe_once()
    large.refresh_from_db()
    assert large.read_error and large.import_state == ""


def test_an_added_location_whose_copies_cannot_be_redacted_says_why(
    large: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_location: Location) -> None:
        raise BucketAway("bucket.away", bucket="s3://copies")

    monkeypatch.setattr(sources, "redact_location_again", away)
    summary = import_added(large)
    assert summary.read_error and summary.read_error.code == "bucket.away"


def test_a_location_that_cannot_be_described_stops_no_other(
    large: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def describe(location: Location, **_options: object) -> bool:
        described.append(location.pk)
        if location.pk == large.pk:
            raise JobRefused("isolation.unavailable", launcher="landlock", reason="not supported")
        return False

    described = list[int]()
    other = imported_location(shutil.copytree(large.path, tmp_path / "other"))
    monkeypatch.setattr(completing, "locations_to_describe", lambda: [large, other])
    monkeypatch.setattr(completing, "describe_runs", describe)
    assert not completing.complete_some() and described == [large.pk, other.pk]
    # It is tried again after a while, not at each change.
    completing.complete_some()
    assert described == [large.pk, other.pk, other.pk]


def test_a_page_is_shown_although_no_reader_can_be_started_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_process() -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(pool, "ReaderProcess", no_process)
    pool.end_idle_readers()
    importing.prepare_import()

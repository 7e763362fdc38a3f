"""Import real stores of each version, complete and redacted."""

import re
from pathlib import Path

import pytest
from pytest_django import Settings

from tests.file_bytes import bytes_of
from tests.imported import imported_location
from tests.real_stores import STORES, VERSIONS, copy_of, hashes_below, write_checkpoint
from viewer.models import Checkpoint, Location, Run
from viewer.records.bodies import stored_body, stored_bytes

pytestmark = pytest.mark.django_db


def parent_links(location: Location) -> dict[str, tuple[str, str | None]]:
    """The parent link and the parent of each checkpoint."""
    rows = location.checkpoints.select_related("parent")
    return {
        row.checkpoint_id: (row.parent_link, row.parent.checkpoint_id if row.parent else None) for row in rows
    }


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["agent", "flow"])
def test_every_checkpoint_becomes_a_row_of_one_run(version: str, kind: str) -> None:
    location = imported_location(STORES / version / kind)
    run = location.runs.get()
    assert run.entity == kind
    assert run.checkpoint_count == len(list((STORES / version / kind).rglob("*.json")))
    assert [row.row for row in run.checkpoints.order_by("row")] == list(range(run.checkpoint_count))
    assert not location.problems.exists()
    # One for the rows, and one for the inputs and costs that follow.
    assert location.revision == 2 and location.imported_at


def test_a_fork_has_its_parent_and_a_new_lane() -> None:
    location = imported_location(STORES / "1.15.30/json")
    assert parent_links(location)["20261120T232952_e9a8cba4"] == ("recorded", "20261120T232827_0aa12db3")
    run = location.runs.get()
    assert (run.branch_count, run.lane_count, run.name) == (2, 2, "research")
    lanes = {row.branch: row.lane for row in run.checkpoints.all()}
    assert lanes == {"main": 0, "exp-a": 1}
    heads = run.checkpoints.filter(is_branch_head=True)
    assert {row.branch: row.checkpoint_id for row in heads} == {
        "main": "20261120T232827_0aa12db3",
        "exp-a": "20261120T232953_b537f2f3",
    }


def test_parents_come_before_children_regardless_of_their_times() -> None:
    location = imported_location(STORES / "1.15.30/json")
    for row in location.checkpoints.exclude(parent=None).select_related("parent"):
        assert row.parent is not None and row.parent.row < row.row


def test_each_model_call_of_a_run_is_counted_once() -> None:
    run = imported_location(STORES / "1.15.30/json").runs.get()
    # Two calls on main before the fork, and one on the fork, each of 20 tokens.
    assert run.tokens == 60


def test_parents_that_the_first_versions_do_not_record_are_inferred() -> None:
    location = imported_location(STORES / "1.14.1/json")
    assert parent_links(location) == {
        "20261121T001329_8069945e": ("root", None),
        "20261121T001330_ddf59eda": ("inferred", "20261121T001329_8069945e"),
        "20261121T001330_824b53d5": ("inferred", "20261121T001330_ddf59eda"),
    }


def test_siblings_without_recorded_parents_are_inferred_from_events() -> None:
    location = imported_location(STORES / "1.15.30/flow")
    assert parent_links(location) == {
        "20261120T233049_16755e62": ("root", None),
        "20261120T233049_c48bba3d": ("inferred", "20261120T233049_16755e62"),
    }


def test_a_missing_parent_is_shown_as_missing() -> None:
    location = imported_location(STORES / "1.14.2/json")
    assert parent_links(location)["20261121T001458_0487a78f"][0] == "missing"
    row = location.checkpoints.get(checkpoint_id="20261121T001458_0487a78f")
    assert row.parent_checkpoint_id == "20261121T001431_eee9fe48"
    assert location.runs.count() == 1


def test_two_kickoffs_in_one_folder_are_two_runs(tmp_path: Path) -> None:
    copy_of("1.15.30/flow", tmp_path)
    copy_of("1.15.30/json", tmp_path)
    location = imported_location(tmp_path)
    assert sorted(location.runs.values_list("entity", "checkpoint_count")) == [("crew", 6), ("flow", 2)]


def test_self_parents_and_cycles_are_reported_and_every_checkpoint_is_imported(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "20260101T000000_aaaaaaaa", "20260101T000000_aaaaaaaa")
    write_checkpoint(tmp_path, "20260101T000001_bbbbbbbb", "20260101T000002_cccccccc")
    write_checkpoint(tmp_path, "20260101T000002_cccccccc", "20260101T000001_bbbbbbbb")
    location = imported_location(tmp_path)
    assert location.checkpoints.count() == 3
    faults = [problem for run in location.runs.all() for problem in run.lineage_faults]
    assert {"code": "self_parent", "ids": ["20260101T000000_aaaaaaaa"], "count": 1} in faults
    circle = ["20260101T000001_bbbbbbbb", "20260101T000002_cccccccc"]
    assert {"code": "cycle", "ids": circle, "count": 2} in faults


def test_an_import_changes_nothing_at_a_location(tmp_path: Path) -> None:
    for version in VERSIONS:
        for kind in ("agent", "flow"):
            copy_of(f"{version}/{kind}", tmp_path)
    copy_of("1.14.1/cp.db", tmp_path)
    copy_of("1.15.30/cp.db", tmp_path)
    before = hashes_below(tmp_path)
    for path in (tmp_path, tmp_path / "1.14.1/cp.db", tmp_path / "1.15.30/cp.db"):
        imported_location(path)
        imported_location(path)
    assert hashes_below(tmp_path) == before


@pytest.mark.sqlite
@pytest.mark.django_db(transaction=True)
def test_no_secret_of_any_store_is_in_the_data_folder(settings: Settings) -> None:
    for path in [*STORES.glob("*/*/"), *STORES.glob("*/cp.db")]:
        imported_location(path)
    assert Checkpoint.objects.count() > 30
    files = bytes_of(path for path in Path(settings.DATA_DIR).rglob("*") if path.is_file())
    bodies = [stored_bytes(row) for row in Checkpoint.objects.select_related("stored_copy")]
    assert b"20261121T001343_7d19a9e0" in files
    assert any(b"[redacted]" in body for body in bodies)
    for content in [files, *bodies]:
        assert re.search(rb"sk-(fake|inline)", content) is None


def test_the_stored_copy_is_the_redacted_checkpoint() -> None:
    location = imported_location(STORES / "1.14.1/cp.db")
    body = stored_body(location.checkpoints.get(checkpoint_id="20261121T001343_7d19a9e0"))
    crew = body["entities"][0]
    assert crew["checkpoint_inputs"] == {"topic": "AI", "year": 2026}
    assert crew["agents"][0]["llm"]["api_key"] == "[redacted]"
    assert len(body["event_record"]["nodes"]) == 25


def test_urls_of_a_location_and_its_runs_survive_a_new_database() -> None:
    location = imported_location(STORES / "1.15.30/json")
    address = (location.uid, location.runs.get().uid)
    Location.objects.all().delete()
    assert not Run.objects.exists()
    again = imported_location(STORES / "1.15.30/json")
    assert (again.uid, again.runs.get().uid) == address

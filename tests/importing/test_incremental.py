"""Repeated imports: what is read again and what is not."""

import json
import os
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from tests.imported import imported_location
from tests.opened_files import opened_files
from tests.real_stores import copy_of, one_checkpoint, write_checkpoint
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location, import_one
from viewer.models import Checkpoint, Location, Problem
from viewer.records.bodies import stored_body

pytestmark = pytest.mark.django_db


@pytest.fixture
def flow(tmp_path: Path) -> Location:
    """A location with two checkpoints of a flow, imported."""
    location = open_location(copy_of("1.15.30/flow", tmp_path))
    assert import_location(location).added == 2
    return location


def files(location: Location) -> list[Path]:
    return sorted(Path(location.path).rglob("*.json"))


def make_old(path: Path, seconds: int = 60) -> None:
    """Date a file back, so that it does not count as being written."""
    at = path.stat().st_mtime - seconds
    os.utime(path, (at, at))


def test_unchanged_files_are_not_opened(flow: Location) -> None:
    with opened_files(flow.path) as opened:
        summary = import_location(flow)
    assert opened == []
    assert (summary.read, summary.is_news) == (0, False)
    flow.refresh_from_db()
    assert flow.revision == 1


def test_only_new_files_are_opened(flow: Location) -> None:
    new = write_checkpoint(Path(flow.path), "20261120T233050_aaaaaaaa", "20261120T233049_c48bba3d")
    with opened_files(flow.path) as opened:
        summary = import_location(flow)
    assert opened == [str(new)]
    assert (summary.read, summary.added, summary.is_news) == (1, 1, True)
    row = flow.checkpoints.get(checkpoint_id="20261120T233050_aaaaaaaa")
    assert (row.parent_link, row.row, row.run) == ("recorded", 2, flow.runs.get())
    flow.refresh_from_db()
    assert flow.revision == 2


def test_changed_files_are_read_again(flow: Location) -> None:
    path = files(flow)[0]
    body = json.loads(path.read_text())
    body["entities"][0]["checkpoint_state"]["topic"] = "something else"
    path.write_text(json.dumps(body))
    key = flow.checkpoints.get(source_key=path.relative_to(flow.path).as_posix()).pk
    summary = import_location(flow)
    assert (summary.read, summary.changed, summary.added) == (1, 1, 0)
    row = Checkpoint.objects.get(pk=key)
    assert stored_body(row)["entities"][0]["checkpoint_state"]["topic"] == "something else"


def test_a_pruned_checkpoint_keeps_its_stored_copy_and_can_be_restored(flow: Location) -> None:
    path = files(flow)[0]
    row = flow.checkpoints.get(source_key=path.relative_to(flow.path).as_posix())
    path.rename(kept := path.parent.parent.parent / "kept")
    assert import_location(flow).pruned == 1
    row.refresh_from_db()
    assert row.state == "pruned"
    assert stored_body(row)["branch"] == "main"
    assert flow.checkpoints.count() == 2
    assert import_location(flow).is_news is False
    kept.rename(path)
    assert import_location(flow).is_news
    row.refresh_from_db()
    assert row.state == "present"


def test_a_pruned_sqlite_row_keeps_its_stored_copy(tmp_path: Path) -> None:
    import sqlite3

    location = open_location(copy_of("1.14.1/cp.db", tmp_path))
    assert import_location(location).added == 3
    with sqlite3.connect(location.path) as store:
        store.execute("DELETE FROM checkpoints WHERE rowid = 1")
    store.close()
    summary = import_location(location)
    assert (summary.pruned, summary.read) == (1, 0)
    assert sorted(location.checkpoints.values_list("state", flat=True)) == ["present", "present", "pruned"]


def test_a_file_that_breaks_keeps_its_last_good_copy(flow: Location) -> None:
    path = files(flow)[1]
    row = flow.checkpoints.get(source_key=path.relative_to(flow.path).as_posix())
    path.write_text("{")
    import_location(flow)
    row.refresh_from_db()
    assert row.state == "writing"
    make_old(path)
    import_location(flow)
    row.refresh_from_db()
    assert row.state == "broken"
    assert stored_body(row)["branch"] == "main"
    assert "Truncated JSON" in str(flow.problems.get().reason)
    assert flow.runs.get().checkpoint_count == 2


def test_a_file_being_written_is_never_broken_before_it_is_complete(
    tmp_path: Path,
) -> None:
    location = open_location(tmp_path)
    whole = json.dumps(one_checkpoint())
    path = tmp_path / "20261120T233049_16755e62_p-none.json"
    for length in (0, 10, 5000, len(whole) - 1):
        path.write_text(whole[:length])
        import_location(location)
        assert location.problems.get().kind == Problem.Kind.WRITING
    path.write_text(whole)
    summary = import_location(location)
    assert (summary.added, summary.problems) == (1, 0)
    assert not location.problems.exists()


def test_an_incomplete_file_becomes_broken_and_is_not_read_again(flow: Location) -> None:
    path = Path(flow.path) / "half.json"
    path.write_text("{")
    import_location(flow)
    # Some time after it was first seen, its bytes are the same.
    Problem.objects.update(first_seen_at=timezone.now() - timedelta(minutes=1))
    with opened_files(flow.path) as opened:
        import_location(flow)
    assert str(path) in opened
    assert flow.problems.get().kind == Problem.Kind.BROKEN
    with opened_files(flow.path) as opened:
        assert import_location(flow).is_news is False
    assert str(path) not in opened


def test_the_settings_say_when_an_incomplete_file_is_broken(flow: Location, settings: Settings) -> None:
    settings.CHECKPOINT_UNCHANGED_SECONDS = 3600
    path = Path(flow.path) / "half.json"
    path.write_text("{")
    make_old(path, seconds=600)
    import_location(flow)
    assert flow.problems.get().kind == Problem.Kind.WRITING


def test_a_problem_disappears_with_its_file(flow: Location) -> None:
    path = Path(flow.path) / "notes.json"
    path.write_text('{"name": "web"}')
    assert import_location(flow).problems == 1
    assert flow.problems.get().kind == Problem.Kind.FOREIGN
    path.unlink()
    summary = import_location(flow)
    assert (summary.problems, summary.is_news) == (0, True)


def test_limits_are_taken_from_the_settings(tmp_path: Path, settings: Settings) -> None:
    settings.CHECKPOINT_MAX_BYTES = 11_000
    location = imported_location(copy_of("1.15.30/flow", tmp_path))
    assert location.checkpoints.count() == 1
    assert "11,000" in str(location.problems.get().reason)


def test_a_missing_location_has_a_read_error_and_keeps_its_checkpoints(flow: Location) -> None:
    shutil.move(flow.path, moved := f"{flow.path}-moved")
    summary = import_location(flow)
    assert summary.read_error and summary.is_news
    flow.refresh_from_db()
    assert flow.read_error == summary.read_error
    assert set(flow.checkpoints.values_list("state", flat=True)) == {"present"}
    shutil.move(moved, flow.path)
    import_location(flow)
    flow.refresh_from_db()
    assert flow.read_error is None


def test_a_branch_called_scratch_is_not_a_draft(flow: Location, runner: Client) -> None:
    (Path(flow.path) / "main").rename(Path(flow.path) / "scratch")
    import_location(flow)
    row = flow.checkpoints.filter(state="present")[0]
    assert (row.is_scratch, row.scratch_job, row.source) == (False, "", f"{flow.path}/{row.source_key}")
    assert runner.get(row.get_absolute_url()).status_code == 200
    for path in files(flow):
        path.unlink()
    import_location(flow)
    assert set(flow.checkpoints.values_list("state", flat=True)) == {"pruned"}


def test_importing_one_checkpoint_reads_nothing_else(flow: Location) -> None:
    write_checkpoint(Path(flow.path), "20261120T233050_aaaaaaaa", "20261120T233049_c48bba3d")
    new = write_checkpoint(Path(flow.path), "20261120T233051_bbbbbbbb", "20261120T233050_aaaaaaaa")
    files(flow)[0].unlink()
    with opened_files(flow.path) as opened:
        assert import_one(flow, str(new)).added == 1
    assert opened == [str(new)]
    assert not flow.checkpoints.filter(state="pruned").exists()
    assert flow.checkpoints.get(checkpoint_id="20261120T233051_bbbbbbbb").parent_link == "missing"
    assert import_one(flow, str(Path(flow.path) / "absent.json")).read == 0
    assert import_one(flow, "/etc/passwd").read == 0


def test_importing_one_sqlite_row(tmp_path: Path) -> None:
    location = open_location(copy_of("1.14.2/agent", tmp_path))
    assert location.store_kind == "json"
    store = open_location(copy_of("1.14.1/cp.db", tmp_path))
    assert import_one(store, f"{store.path}#20261121T001343_0c93aa95").added == 1
    assert store.checkpoints.get().checkpoint_id == "20261121T001343_0c93aa95"

"""A run with failed checkpoint writes reports them and keeps its result."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from forkline_crewai.checkpoints import Moved, Pins
from tests.jobs.conftest import MakeJob, finished
from viewer.cli.starting import outcome_of
from viewer.messages.message import plain_text
from viewer.models import Job
from viewer.presentation.jobs.status import sentence, status_label, warnings_of

FULL = {"error": "No space left on device", "moved": False}
MOVED = {"error": "the location was renamed, replaced or removed", "moved": True}
WORDS = {
    "full": "Finished, but checkpoints could not be written (4 of 5): No space left on device",
    "moved": "Finished, but checkpoints could not be written (4 of 5): the location was renamed, replaced or "
    "removed while the run wrote there.",
}


def ended(make_job: MakeJob, why: dict[str, Any]) -> Job:
    job = make_job("checkpoints/fills_the_disk.py")
    assert job.project
    Path(job.project.folder, "why.json").write_text(json.dumps(why))
    finished(job)
    return job


@pytest.mark.parametrize(("why", "text"), [(FULL, WORDS["full"]), (MOVED, WORDS["moved"])])
def test_the_outcome_counts_failed_writes_with_the_reason(
    make_job: MakeJob, reader: Client, why: dict[str, Any], text: str
) -> None:
    job = ended(make_job, why)
    assert (job.status, str(job.error), job.result) == ("succeeded", text, "four tasks done")
    assert job.is_incomplete
    assert status_label(job) == "checkpoints missing"
    assert "but checkpoints are missing" in sentence(job)
    page = reader.get(job.get_absolute_url()).content.decode()
    assert text in page and "four tasks done" in page and "status-succeeded" not in page
    assert page.count("Writing a checkpoint failed") == 4
    rows = reader.get(reverse("jobs")).content.decode()
    assert "checkpoints missing" in rows and "status-succeeded" not in rows


def test_the_terminal_reports_failed_writes_with_exit_status_one(make_job: MakeJob) -> None:
    answer = outcome_of(ended(make_job, FULL), [], waits=False)
    assert answer.status == 1
    assert answer.document["error"] == WORDS["full"]
    assert (answer.document["checkpoints_failed"], answer.document["status"]) == (4, "succeeded")
    assert WORDS["full"] in answer.lines and "four tasks done" in answer.lines
    assert not any(line.startswith("succeeded") for line in answer.lines)


def test_a_run_without_failed_writes_succeeds_without_an_error(make_job: MakeJob) -> None:
    job = make_job("succeeds.py")
    finished(job)
    assert (status_label(job), job.is_incomplete) == ("succeeded", False)
    assert outcome_of(job, [], waits=False).status == 0


def test_a_run_that_fails_keeps_its_own_error_and_warns(make_job: MakeJob) -> None:
    job = ended(make_job, FULL)
    Job.objects.filter(pk=job.pk).update(status="failed", error=plain_text("the tool broke"))
    job.refresh_from_db()
    assert warnings_of(job) == ["Writing a checkpoint failed: No space left on device"]


def test_a_renamed_replaced_or_deleted_folder_is_detected(tmp_path: Path) -> None:
    target = tmp_path / "checkpoints"

    def renamed() -> None:
        target.rename(tmp_path / "renamed")

    def replaced() -> None:
        shutil.rmtree(target)
        target.mkdir()

    def linked() -> None:
        target.rename(tmp_path / "behind")
        target.symlink_to(tmp_path)

    for change in (renamed, replaced, linked):
        if not target.exists():
            target.mkdir()
        pins = Pins()
        pins.hold(str(target), is_folder=True)
        (target / "main").mkdir()
        pins.check(str(target))
        change()
        with pytest.raises(Moved, match="renamed, replaced or removed"):
            pins.check(str(target))
        # A new folder at its path is not accepted.
        target.mkdir(exist_ok=True)
        with pytest.raises(Moved):
            pins.check(str(target))


def test_a_replaced_store_is_detected(tmp_path: Path) -> None:
    store = tmp_path / "runs" / "press.db"
    store.parent.mkdir()
    pins = Pins()
    pins.hold(str(store), is_folder=False)
    # The first write creates it.
    pins.check(str(store))
    store.write_bytes(b"x")
    pins.hold(str(store), is_folder=False)
    pins.check(str(store))
    (tmp_path / "another.db").write_bytes(b"x")
    (tmp_path / "another.db").replace(store)
    with pytest.raises(Moved):
        pins.check(str(store))
    fresh = Pins()
    fresh.hold(str(tmp_path / "runs" / "new.db"), is_folder=False)
    store.parent.rename(tmp_path / "elsewhere")
    with pytest.raises(Moved):
        fresh.check(str(tmp_path / "runs" / "new.db"))


def test_a_location_created_by_the_run_is_recorded(tmp_path: Path) -> None:
    target = tmp_path / "later"
    pins = Pins()
    pins.hold(str(target), is_folder=True)
    pins.check(str(target))
    target.mkdir()
    pins.hold(str(target), is_folder=True)
    target.rename(tmp_path / "renamed")
    with pytest.raises(Moved):
        pins.check(str(target))

"""The counter goes all the way: import, pages, edit, fork through a worker, progress, terminal."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.engines.conftest import write_counts
from tests.jobs.conftest import ROOT
from tests.terminal import Terminal
from tests.waiting import wait_until
from viewer.engines import engine_of
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location
from viewer.models import Checkpoint, Job, Location
from viewer.presentation.jobs.events import advance, label_of, progress_of
from viewer.records.bodies import stored_contents


def checkpoint(location: Location, name: str) -> Checkpoint:
    return location.checkpoints.select_related("location__project", "run", "stored_copy").get(
        checkpoint_id=name
    )


def test_a_location_records_the_engine_that_recognises_it(counted: Location) -> None:
    assert counted.engine == "counter"
    assert engine_of(counted).title == "Counter"


def test_its_checkpoints_become_one_run_with_a_lineage(counted: Location) -> None:
    (only,) = counted.runs.all()
    assert (only.entity, only.checkpoint_count, only.branch_count) == ("counting", 3, 1)
    rows = only.checkpoints.order_by("row").values_list(
        "checkpoint_id", "parent__checkpoint_id", "units_done"
    )
    assert list(rows) == [("s0", None, 0), ("s1", "s0", 0), ("s2", "s1", 1)]


def test_a_location_of_another_engine_keeps_it(
    counter_engine: str, transactional_db: None, tmp_path: Path
) -> None:
    location = open_location(Path(__file__).parents[1] / "recorded_stores/1.15.30/json")
    assert location.engine == "crewai"


def test_a_file_of_another_engine_is_not_a_checkpoint_of_this_one(counted: Location, tmp_path: Path) -> None:
    (tmp_path / "counts/main/x.json").write_text('{"entities": [], "event_record": {"nodes": {}}}')
    import_location(counted)
    (problem,) = counted.problems.all()
    assert problem.kind == "foreign" and "not a checkpoint of a counter" in str(problem.reason)


def test_the_checkpoint_page_shows_the_engines_own_tab(reader: Client, counted: Location) -> None:
    shown = checkpoint(counted, "s2")
    page = reader.get(f"{shown.run.get_absolute_url()}?at=s2&tab=counts").content.decode()
    assert "<dt>right</dt><dd>3</dd>" in page
    assert "Counts" in page and "step counted" in page and "Tasks" not in page


def test_the_fork_form_edits_its_state_and_shows_its_plan(runner: Client, counted: Location) -> None:
    shown = checkpoint(counted, "s2")
    page = runner.get(reverse("fork", args=[shown.pk])).content.decode()
    assert 'name="state:by"' in page and 'name="state:label"' in page
    assert "left" in page and "right" in page


@pytest.fixture
def worker(counted: Location) -> Any:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.engines.counter.worker_settings"}
    process = subprocess.Popen([sys.executable, "manage.py", "worker"], cwd=ROOT, env=environment)
    yield process
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_a_fork_runs_in_a_worker_and_shows_its_progress(
    worker: Any, counted: Location, terminal: Terminal
) -> None:
    source = f"{counted.path}#s2"
    state = json.dumps({"by": 5, "label": "goats"})
    forked = terminal.document("fork", source, "--branch", "what-if", "--state", state, "--again", "right")
    job = Job.objects.get(pk=forked["job"])
    assert [(step["unit"], step["action"]) for step in job.plan] == [("left", "runs"), ("right", "again")]
    wait_until(lambda: Job.objects.get(pk=job.pk).has_ended)
    job.refresh_from_db()
    assert (job.status, job.result) == ("succeeded", "12 goats"), job.error
    progress = progress_of(job.plan)
    events = list(job.events.all())
    for event in events:
        advance(progress, event.seq, event.kind, event.data)
    assert (progress.done, progress.total) == (2, 2)
    assert "Counts left" in [label_of(event.kind, event.data) for event in events]
    new = checkpoint(counted, "what-if-1")
    assert new.parent and new.parent.checkpoint_id == "s2" and new.run.branch_count == 2
    assert stored_contents(new).state == {"label": "goats", "by": 5, "is_fast": False}  # type: ignore[attr-defined]


def test_the_terminal_lists_and_reads_it(counted: Location, terminal: Terminal) -> None:
    assert "s2" in terminal.text("list", counted.path, "--json")
    document = terminal.document("info", f"{counted.path}#s2")
    assert (document["counts"], document["limit"]) == ({"left": 2, "right": 3}, 3)


def test_an_edit_that_the_engine_refuses_starts_nothing(counted: Location, terminal: Terminal) -> None:
    error = terminal.refused("fork", f"{counted.path}#s2", "--again", "up")["error"]
    assert "There is no count 'up'" in error and not Job.objects.exists()


def test_a_new_checkpoint_appears_in_its_run(counted: Location, tmp_path: Path) -> None:
    write_counts(tmp_path / "counts", 3)
    import_location(counted)
    assert checkpoint(counted, "s3").parent == checkpoint(counted, "s2")

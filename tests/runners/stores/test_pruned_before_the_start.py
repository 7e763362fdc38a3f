"""A scheduled job whose checkpoint is deleted before its start fails with the reason and calls no model."""

import shutil
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from tests.engine_runs.model import TestModel
from tests.imported import imported_location
from viewer.engines.crewai.contents import contents_of
from viewer.engines.plan import Edits
from viewer.host.jobs.following import ensure_finished
from viewer.host.locations.importing import import_location
from viewer.launching.requests import LaunchOptions
from viewer.launching.start import move_start, start_job
from viewer.models import Checkpoint, Job, Project
from viewer.records.bodies import stored_body
from viewer.records.runner_requests import request_for

pytestmark = pytest.mark.django_db(transaction=True)
STORES = Path(__file__).resolve().parents[2] / "recorded_stores/1.15.30"


@pytest.fixture
def project(engine_python: Path, model: TestModel, tmp_path: Path) -> Project:
    """Return a project whose interpreter has CrewAI, with a model that counts its calls."""
    file = tmp_path / "keys.env"
    file.write_text(f"OPENAI_API_KEY=none\nOPENAI_BASE_URL={model.url}\n")
    return Project.objects.create(
        folder=str(tmp_path),
        interpreter=str(engine_python),
        environment_file=str(file),
        confirmed_at=timezone.now(),
    )


def scheduled(folder: Path, project: Project) -> Job:
    """Create a resume of the oldest checkpoint, scheduled in an hour."""
    location = imported_location(folder)
    checkpoint = location.checkpoints.order_by("row").first()
    assert checkpoint and contents_of(stored_body(checkpoint)).kind == "crew"
    asked = request_for(checkpoint, Job.Kind.RESUME, checkpoint.branch, Edits(), [])
    terms = LaunchOptions(timezone.now() + timedelta(hours=1), {})
    return start_job(checkpoint, project, Job.Kind.RESUME, checkpoint.branch, asked, [], options=terms)


def ended(job: Job) -> Job:
    """Return the job after its start time."""
    assert job.checkpoint and job.status == Job.Status.QUEUED
    import_location(job.location)
    assert Checkpoint.objects.get(pk=job.checkpoint.pk).state == Checkpoint.State.PRUNED
    assert move_start(job, None)
    ensure_finished(job)
    job.refresh_from_db()
    return job


def assert_it_says_so(job: Job, model: TestModel) -> None:
    assert job.checkpoint
    assert job.status == Job.Status.FAILED
    assert str(job.error).startswith(
        f"The checkpoint {job.checkpoint.checkpoint_id} no longer exists at its location"
    )
    assert "Nothing has run." in str(job.error)
    assert not job.events.filter(kind__in=["steps", "model_started", "checkpoint"]).exists()
    assert model.requests == []


def test_a_deleted_file_fails_the_job(project: Project, model: TestModel, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(STORES / "json", tmp_path / "cp"))
    job = scheduled(folder, project)
    assert job.checkpoint
    left = len(list(folder.rglob("*.json"))) - 1
    Path(job.checkpoint.source).unlink()
    assert_it_says_so(ended(job), model)
    assert len(list(folder.rglob("*.json"))) == left


def test_a_deleted_row_fails_the_job(project: Project, model: TestModel, tmp_path: Path) -> None:
    database = Path(shutil.copyfile(STORES / "cp.db", tmp_path / "cp.db"))
    job = scheduled(database, project)
    assert job.checkpoint
    with closing(sqlite3.connect(database)) as store, store:
        store.execute("DELETE FROM checkpoints WHERE id = ?", (job.checkpoint.checkpoint_id,))
    assert_it_says_so(ended(job), model)

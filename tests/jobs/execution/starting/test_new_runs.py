"""The job of a new run starts once and is linked to its run."""

import os
import signal
import uuid
from pathlib import Path

import pytest
from pytest_django import Settings

from tests.jobs.conftest import FAKE_RUNNERS, StartWorker, marks, status
from tests.waiting import wait_until
from viewer.engines.runner_protocol import LocationTarget
from viewer.host.jobs.following import ensure_finished
from viewer.host_requests import JobRefused
from viewer.launching.start import start_run
from viewer.models import Job, Location, Project
from viewer.records.runner_requests import request_for_run


@pytest.fixture
def job(location: Location, project: Project, settings: Settings) -> Job:
    settings.JOB_RUNNERS = {"crewai": FAKE_RUNNERS / "checkpoints/writes_a_run.py"}
    target = LocationTarget(path=location.path, store_kind="json")
    request = request_for_run(target, "crew", "press", "press_crew:make_crew", {"year": 2026})
    key = uuid.uuid4()
    made = start_run(location, project, request, idempotency_key=key)
    assert start_run(location, project, request, idempotency_key=key) == made
    return made


def run_name(job: Job) -> str | None:
    return Job.objects.values_list("run__name", flat=True).get(pk=job.pk)


def test_a_new_run_is_linked_although_its_worker_was_killed(
    job: Job, start_worker: StartWorker, project: Project
) -> None:
    first = start_worker("checkpoints/writes_a_run.py")
    wait_until(lambda: status(job) == "running")
    assert (job.kind, job.branch, run_name(job)) == (Job.Kind.RUN, "main", None)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    # No process follows the job while the checkpoint is written.
    Path(project.folder, "write").touch()
    wait_until(lambda: any(Path(job.location.path).rglob("*.json")))
    start_worker("checkpoints/writes_a_run.py")
    wait_until(lambda: run_name(job) == "press")
    assert status(job) == "running"
    Path(project.folder, "go").touch()
    wait_until(lambda: status(job) == "succeeded")
    assert marks(project) == [str(job.pk)]


def test_a_new_run_is_linked_by_its_follower(job: Job, project: Project) -> None:
    Path(project.folder, "write").touch()
    Path(project.folder, "go").touch()
    ensure_finished(job)
    assert status(job) == "succeeded"
    job.refresh_from_db()
    assert job.run is not None
    assert job.run.location == job.location
    assert job.run.checkpoints.get().checkpoint_id == "20261121T001329_8069945e"


def test_nothing_starts_in_an_unconfirmed_project(location: Location, project: Project) -> None:
    Project.objects.update(confirmed_at=None)
    project.refresh_from_db()
    request = request_for_run(LocationTarget(path=location.path, store_kind="json"), "crew", "x", "a:b", {})
    for unfit in (project, None):
        with pytest.raises(JobRefused):
            start_run(location, unfit, request)
    assert not Job.objects.exists()

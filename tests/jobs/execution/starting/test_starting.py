"""Starting jobs: one job for each key, one runner for each job, and refusals."""

import errno
import os
import signal
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from tests.environments import environment_with
from tests.jobs.conftest import ROOT, MakeJob, StartWorker, finished, followed, marks, status
from tests.waiting import exit_status, wait_until
from viewer.cli.running import run_here
from viewer.data_folder.locks import worker_is_up
from viewer.host.jobs import starting
from viewer.host.jobs.files import JobStorage, storage_of
from viewer.host.jobs.following import ensure_finished
from viewer.host.jobs.starting import launch
from viewer.host_requests import JobRefused
from viewer.launching.start import start_job
from viewer.models import Checkpoint, Job, Location, Project
from viewer.records.isolation import Isolation

CLAIM = """
import sys, django
django.setup()
from viewer.models import Job
job = Job.objects.get(pk=sys.argv[1])
sys.stdin.read(1)
print(int(job.claim()))
"""

RUN_HERE = """
import sys, django
django.setup()
from viewer.cli.running import run_here
from viewer.models import Job
try:
    run_here(Job.objects.get(pk=sys.argv[1]))
except KeyboardInterrupt:
    sys.exit(130)
"""


TAKE = """
import sys, django
django.setup()
from viewer.host.jobs.following import ensure_finished
from viewer.models import Job
from viewer.presentation.jobs.status import wait_of
from viewer.records.hosts import next_job
job = Job.objects.get(pk=sys.argv[1])
ensure_finished(next_job() or job)
job.refresh_from_db()
print(job.status, getattr(wait_of(job), "kind", ""))
"""


def request_fork(checkpoint: Checkpoint, key: uuid.UUID, branch: str = "what-if") -> Job:
    project = checkpoint.location.project
    try:
        return start_job(checkpoint, project, Job.Kind.FORK, branch, {"inputs": {}}, [], idempotency_key=key)
    finally:
        connection.close()


def test_two_hundred_simultaneous_clicks_make_one_job(checkpoint: Checkpoint) -> None:
    key = uuid.uuid4()
    with ThreadPoolExecutor(32) as people:
        jobs = list(people.map(lambda _: request_fork(checkpoint, key), range(200)))
    assert len({job.pk for job in jobs}) == 1
    assert Job.objects.count() == 1


def test_each_key_makes_another_job(checkpoint: Checkpoint) -> None:
    assert request_fork(checkpoint, uuid.uuid4()).pk != request_fork(checkpoint, uuid.uuid4(), "another").pk


def test_many_processes_claim_a_job_once(make_job: MakeJob) -> None:
    job = make_job()
    claimers = [
        subprocess.Popen(
            [sys.executable, "-c", CLAIM, str(job.pk)],
            cwd=ROOT,
            env=environment_with(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(5)
    ]
    answers = [claimer.communicate("x")[0].strip() for claimer in claimers]
    assert sorted(answers) == ["0"] * 4 + ["1"]


def test_a_job_that_many_take_has_one_runner(make_job: MakeJob, project: Project) -> None:
    job = make_job("succeeds.py")

    def run(_: int) -> None:
        ensure_finished(Job.objects.get(pk=job.pk))
        connection.close()

    with ThreadPoolExecutor(8) as workers:
        list(workers.map(run, range(8)))
    assert status(job) == "succeeded"
    assert marks(project) == [str(job.pk)]


def test_an_unconfirmed_project_is_refused_before_a_job_is_made(checkpoint: Checkpoint) -> None:
    Project.objects.update(confirmed_at=None)
    checkpoint.refresh_from_db()
    with pytest.raises(JobRefused, match="Confirm the project"):
        request_fork(checkpoint, uuid.uuid4())
    assert not Job.objects.exists()


def test_a_location_without_a_project_is_refused(checkpoint: Checkpoint) -> None:
    with pytest.raises(JobRefused, match="no project"):
        start_job(checkpoint, None, Job.Kind.RESUME, "main", {}, [])


def test_without_a_worker_the_job_runs_here(make_job: MakeJob, project: Project) -> None:
    job = make_job("succeeds.py")
    run_here(job)
    assert (job.status, job.result) == ("succeeded", "all done")
    assert marks(project) == [str(job.pk)]


def test_ctrl_c_cancels_what_runs_here(make_job: MakeJob) -> None:
    job = make_job("interruptible.py")
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.jobs.worker_settings",
        "FAKE_RUNNER": "interruptible.py",
    }
    terminal = subprocess.Popen([sys.executable, "-c", RUN_HERE, str(job.pk)], cwd=ROOT, env=environment)
    wait_until(lambda: job.events.filter(kind="task_started").exists())
    terminal.send_signal(signal.SIGINT)
    assert terminal.wait(60) == 130
    assert status(job) == "cancelled"


def test_with_a_worker_the_job_is_waited_for(
    make_job: MakeJob, start_worker: StartWorker, project: Project
) -> None:
    start_worker("succeeds.py")
    wait_until(worker_is_up)
    job = make_job("errors/raises.py")
    run_here(job)
    # The worker's child succeeds; this process's would have failed.
    assert job.status == "succeeded"
    assert marks(project) == [str(job.pk)]


def test_a_job_whose_claim_was_lost_is_not_started_again(make_job: MakeJob, project: Project) -> None:
    """A standby without the last commits took over, or a backup was restored."""
    job = finished(make_job())
    assert job.status == Job.Status.SUCCEEDED
    Job.objects.filter(pk=job.pk).update(status=Job.Status.QUEUED, ended_at=None, process_id=None)
    assert finished(job).status == Job.Status.INTERRUPTED
    assert marks(project) == [str(job.pk)]


def test_a_running_job_whose_claim_was_lost_is_followed(make_job: MakeJob, project: Project) -> None:
    job = make_job("succeeds_after_go.py")
    runner = launch(job)
    assert runner is not None
    wait_until(lambda: marks(project))
    before = {"status": Job.Status.QUEUED, "started_at": None, "process_id": None}
    Job.objects.filter(pk=job.pk).update(**before)
    with followed(job):
        wait_until(lambda: status(job) == Job.Status.RUNNING)
        (Path(project.folder) / "go").touch()
        exit_status(runner)
    assert (job.status, job.result) == (Job.Status.SUCCEEDED, "all done")
    assert marks(project) == [str(job.pk)]


def test_a_job_that_has_no_space_for_its_log_holds_no_lock(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(_storage: JobStorage) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(JobStorage, "open_log", no_space)
    job = finished(make_job())
    assert job.status == "failed" and not storage_of(job).has_runner()


@pytest.mark.sqlite
def test_a_queued_job_does_not_start_from_a_copy_of_the_database(
    make_job: MakeJob, project: Project, tmp_path: Path
) -> None:
    """A copied data folder, a database that was put in its place again, or another machine with both."""
    job = make_job()
    # This process must not open the files of its database.
    subprocess.run(["cp", "-r", str(settings.DATA_DIR), str(tmp_path / "copy")], check=True)
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.jobs.worker_settings"}
    environment |= {"FAKE_RUNNER": "succeeds.py", "DATA_DIR": str(tmp_path / "copy")}
    command = [sys.executable, "-c", TAKE, str(job.pk)]
    taken = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert taken.stdout.split() == ["queued", "person"] and marks(project) == []
    assert finished(job).status == Job.Status.SUCCEEDED and marks(project) == [str(job.pk)]


@pytest.mark.sqlite
def test_a_job_that_ran_before_its_database_was_copied_is_not_left_queued(
    make_job: MakeJob, project: Project
) -> None:
    job = finished(make_job())
    Job.objects.filter(pk=job.pk).update(status=Job.Status.QUEUED, ended_at=None, queued_in="file:1")
    assert finished(job).status == Job.Status.INTERRUPTED
    assert marks(project) == [str(job.pk)]


def test_that_a_job_was_started_is_on_the_disk_before_its_runner_starts(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power failure may take the last commits of the database, and with them the claim."""
    synced, before_start = set[int](), set[int]()
    monkeypatch.setattr(os, "fsync", lambda one: synced.add(os.fstat(one).st_ino))
    started = starting._started

    def start(*given: Any) -> Any:
        before_start.update(synced)
        return started(*given)

    monkeypatch.setattr(starting, "_started", start)
    job = finished(make_job())
    log = job.folder / "log.txt"
    assert {job.folder.stat().st_ino, job.folder.parent.stat().st_ino} <= before_start
    assert log.exists() and len(before_start) == 4


def test_variables_that_no_process_can_have_are_refused_with_the_reason(
    make_job: MakeJob, project: Project
) -> None:
    file = Path(project.folder, ".env")
    file.write_bytes("OPENAI_API_KEY=x\n".encode("utf-16-le"))
    Project.objects.update(environment_file=str(file))
    job = finished(make_job())
    assert (job.status, job.error and job.error.code) == ("failed", "job.environment_file_not_text")
    assert marks(project) == []


@pytest.mark.parametrize(
    "isolation", [Isolation(), Isolation(launcher="bubblewrap", network="hosts", allow=("model.test:443",))]
)
def test_a_job_whose_database_is_no_longer_in_the_settings_says_so(
    make_job: MakeJob, project: Project, monkeypatch: pytest.MonkeyPatch, isolation: Isolation
) -> None:
    monkeypatch.setattr(starting, "isolation_for", lambda _project: isolation)
    job = make_job()
    Location.objects.update(path="postgresql:removed", store_kind=Location.StoreKind.POSTGRESQL)
    finished(job)
    assert (job.status, job.error and job.error.code) == ("failed", "postgresql.not_configured")
    assert marks(project) == []

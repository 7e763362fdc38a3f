"""Jobs with tiny real runners, and real workers."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import psutil
import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from tests.settings import SERVER
from tests.waiting import wait_until
from viewer.host.jobs.environment import MARKER
from viewer.host.jobs.following import ensure_finished
from viewer.host.worker import claim_unregistered
from viewer.models import Checkpoint, Job, Location, Project, Run

ROOT = Path(__file__).resolve().parents[2]
FAKE_RUNNERS = Path(__file__).resolve().parent / "fake_runners"
WORKER = [sys.executable, "manage.py", "worker"]

MakeJob = Callable[..., Job]
StartWorker = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def project(transactional_db: None, tmp_path: Path) -> Project:
    """Return a confirmed project with this interpreter."""
    folder = tmp_path / "project"
    folder.mkdir()
    if SERVER:
        # Processes with other settings than the tests run the jobs of the host of their data folder only.
        claim_unregistered()
    return Project.objects.create(folder=str(folder), interpreter=sys.executable, confirmed_at=timezone.now())


@pytest.fixture
def location(transactional_db: None, tmp_path: Path, project: Project) -> Location:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    return Location.objects.create(path=str(folder), store_kind=Location.StoreKind.JSON, project=project)


@pytest.fixture
def checkpoint(location: Location) -> Checkpoint:
    """Return a checkpoint of a crew as a row, without a file."""
    run = Run.objects.create(location=location, key="kickoff", entity="crew", name="article")
    return Checkpoint.objects.create(
        location=location,
        run=run,
        source_key="main/20261121T001329_8069945e_p-none.json",
        fingerprint="1",
        checkpoint_id="20261121T001329_8069945e",
        branch="main",
        entity="crew",
    )


@pytest.fixture
def make_job(location: Location, project: Project, settings: Settings) -> Iterator[MakeJob]:
    """Return a function that creates a queued job with a tiny runner. Running ones are ended at the end."""
    # A busy machine may take long to let a runner report its end. One that ignores signals needs less.
    settings.CANCEL_GRACE_SECONDS = 60
    made: set[str] = set()

    def make(child: str = "succeeds.py") -> Job:
        settings.JOB_RUNNERS = {"crewai": FAKE_RUNNERS / child}
        job = Job.objects.create(kind=Job.Kind.FORK, location=location, project=project, branch="what-if")
        made.add(str(job.pk))
        return job

    yield make
    # Other jobs may run on this machine.
    made.update(map(str, Job.objects.values_list("pk", flat=True)))
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARKER) in made:
                process.kill()
        except psutil.Error:
            continue


@pytest.fixture
def start_worker(transactional_db: None) -> Iterator[StartWorker]:
    """Return a function that starts a real worker with this runner on the test's data folder."""
    workers: list[subprocess.Popen[bytes]] = []

    def start(child: str, **variables: str) -> "subprocess.Popen[bytes]":
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.jobs.worker_settings",
            "FAKE_RUNNER": child,
            "CANCEL_GRACE_SECONDS": "60",
            **variables,
        }
        workers.append(subprocess.Popen(WORKER, cwd=ROOT, env=environment))
        return workers[-1]

    yield start
    for worker in workers:
        worker.send_signal(signal.SIGKILL)
        worker.wait()


def finished(job: Job) -> Job:
    """Return the job after its end."""
    ensure_finished(job)
    job.refresh_from_db()
    return job


@contextmanager
def followed(job: Job, prepare: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Follow the job in another thread, which first calls ``prepare``, and wait for its end."""

    def follow() -> None:
        prepare()
        ensure_finished(Job.objects.get(pk=job.pk))
        connection.close()

    thread = Thread(target=follow)
    thread.start()
    yield
    wait_until(lambda: not thread.is_alive())
    # Some tests delete the job.
    if Job.objects.filter(pk=job.pk).exists():
        job.refresh_from_db()


def marks(project: Project) -> list[str]:
    """Return the id of each job whose runner started, once per start."""
    path = Path(project.folder) / "marks"
    return path.read_text().split() if path.exists() else []


def status(job: Job) -> str:
    """Return the stored status."""
    return Job.objects.values_list("status", flat=True).get(pk=job.pk)

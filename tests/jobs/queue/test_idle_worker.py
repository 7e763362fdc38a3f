"""An idle worker sleeps until the database is written."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from django.db import connection

from tests.environments import environment_with
from tests.jobs.conftest import ROOT, MakeJob, StartWorker, status
from tests.waiting import wait_until
from viewer.models import Job
from viewer.records.hosts import enqueue


@pytest.mark.usefixtures("transactional_db")
def test_an_idle_worker_uses_no_cpu_and_starts_a_job_at_once(
    make_job: MakeJob, start_worker: StartWorker
) -> None:
    job = make_job("succeeds.py")
    worker = psutil.Process(start_worker("succeeds.py").pid)
    wait_until(lambda: status(job) == Job.Status.SUCCEEDED)
    # One that polls twenty times a second uses more than this in each such period. To a server, a query takes
    # more of it, and the host sends its heartbeats.
    most = 0.01 if connection.vendor == "sqlite" else 0.05
    wait_until(lambda: processor_time(worker, seconds=2) <= most)
    second = make_job("succeeds.py")
    enqueue(second)
    wait_until(lambda: status(second) != Job.Status.QUEUED, 10)


def processor_time(process: psutil.Process, seconds: float) -> float:
    """Return the seconds of processor time that a process uses in the next seconds."""
    before = sum(process.cpu_times()[:2])
    time.sleep(seconds)
    return float(sum(process.cpu_times()[:2]) - before)


def test_list_does_not_import_the_modules_of_runs(empty_data_folder: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from django.core.management import execute_from_command_line as run;"
        f"run(['manage.py', 'checkpoints', 'list', {str(tmp_path)!r}]);"
        "names = ('viewer.host.jobs.following', 'viewer.cli.starting', 'channels.layers',"
        " 'uvicorn');"
        "print([name for name in (*names, 'viewer.launching.draft') if name in sys.modules])"
    )
    environment = environment_with(tmp_path / "data")
    shutil.copytree(empty_data_folder, tmp_path / "data")
    (tmp_path / "main").mkdir()
    listed = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert listed.stdout.splitlines()[-1] == "[]", listed.stderr


def test_help_describes_each_subcommand() -> None:
    environment = environment_with()
    command = [sys.executable, "manage.py", "checkpoints", "--help"]
    shown = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True).stdout
    assert "List the runs and checkpoints of a location." in " ".join(shown.split())

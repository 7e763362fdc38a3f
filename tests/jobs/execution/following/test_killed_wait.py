"""The job of a killed ``--wait`` is finished by the next command, and never started again."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import call_command

from tests.jobs.conftest import ROOT, MakeJob, StartWorker, marks, status
from tests.waiting import wait_until
from viewer.data_folder.locks import worker_is_up
from viewer.host.jobs.files import storage_of
from viewer.host.jobs.following import finish_orphans
from viewer.host.jobs.processes import end_orphan_processes, tree_of
from viewer.models import Job, Location, Project
from viewer.models.jobs import without_edits

WAIT = """
import sys, uuid, django; django.setup()
from viewer.cli.running import run_here
from viewer.models import Job
run_here(Job.objects.get(pk=uuid.UUID(sys.argv[1])))
"""


def waiting_for(job: Job, child: str) -> "subprocess.Popen[bytes]":
    """Run ``checkpoints fork --wait`` on a queued job in another process, which executes it."""
    own = {"DJANGO_SETTINGS_MODULE": "tests.jobs.worker_settings", "FAKE_RUNNER": child}
    return subprocess.Popen([sys.executable, "-c", WAIT, str(job.pk)], cwd=ROOT, env={**os.environ, **own})


def running_under(waits: "subprocess.Popen[bytes]", job: Job) -> None:
    """Wait until the job runs. Fail at once if the process that waits for it has exited."""
    wait_until(lambda: status(job) == "running" or waits.poll() is not None)
    assert waits.poll() is None, "The process that runs the job has exited: see the captured output."


def killed_once_started(job: Job, project: Project, child: str) -> None:
    """Kill the waiting command once the job's runner has started."""
    waits = waiting_for(job, child)
    running_under(waits, job)
    assert marks(project) == [str(job.pk)]
    waits.send_signal(signal.SIGKILL)
    waits.wait()
    assert status(job) == "running" and not worker_is_up()


@pytest.mark.parametrize("command", ["list", "answer", "import"])
def test_the_next_command_finishes_the_job(
    make_job: MakeJob, project: Project, location: Location, command: str
) -> None:
    job = make_job("works_on.py")
    killed_once_started(job, project, "works_on.py")
    for process in tree_of(storage_of(job)):
        process.kill()
        process.wait()
    calls = {
        "list": ["checkpoints", "list", location.path],
        "answer": ["checkpoints", "answer"],
        "import": ["import_checkpoints", location.path],
    }
    call_command(*calls[command])
    job.refresh_from_db()
    assert (job.status, marks(project)) == ("interrupted", [str(job.pk)])
    assert job.ended_at and without_edits(job.request) == job.request


def test_a_running_job_is_finished_only_after_its_end(make_job: MakeJob, project: Project) -> None:
    job = make_job("succeeds_after_go.py")
    killed_once_started(job, project, "succeeds_after_go.py")
    call_command("checkpoints", "answer")
    assert status(job) == "running" and tree_of(storage_of(job))
    (Path(project.folder) / "go").touch()
    wait_until(lambda: not tree_of(storage_of(job)))
    call_command("checkpoints", "answer")
    assert (status(job), marks(project)) == ("succeeded", [str(job.pk)])


def test_a_claimed_job_that_never_started_is_finished_without_a_start(
    make_job: MakeJob, project: Project
) -> None:
    job = make_job()
    storage_of(job).create()
    assert job.claim()
    (ended,) = finish_orphans()
    assert ended.pk == job.pk and status(job) == "interrupted" and marks(project) == []
    assert finish_orphans() == []


def test_a_queued_job_is_not_started(make_job: MakeJob, project: Project) -> None:
    job = make_job()
    call_command("checkpoints", "answer")
    assert status(job) == "queued" and marks(project) == []


def test_remaining_processes_of_an_ended_job_are_ended(make_job: MakeJob, project: Project) -> None:
    job, other = make_job("works_on.py"), make_job("works_on.py")
    waits = waiting_for(job, "works_on.py")
    running_under(waits, job)
    killed = waiting_for(other, "works_on.py")
    running_under(killed, other)
    for one in (waits, killed):
        one.kill()
        one.wait()
    Job.objects.filter(pk=job.pk).update(status="interrupted")
    assert end_orphan_processes() == [job] and not tree_of(storage_of(job)) and tree_of(storage_of(other))
    assert end_orphan_processes() == []


def test_a_worker_finishes_the_job(make_job: MakeJob, project: Project, start_worker: StartWorker) -> None:
    job = make_job("works_on.py")
    killed_once_started(job, project, "works_on.py")
    for process in tree_of(storage_of(job)):
        process.kill()
    start_worker("works_on.py")
    wait_until(lambda: status(job) == "interrupted")
    assert marks(project) == [str(job.pk)]

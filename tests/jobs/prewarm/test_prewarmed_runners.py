"""Prewarmed processes fork runners with the same surroundings as new processes."""

import contextlib
import socket
from pathlib import Path

import psutil
import pytest
from pytest_django import Settings

from tests.jobs.conftest import MakeJob, finished, followed, marks
from tests.jobs.prewarm.conftest import Warm, is_warm, only, reported_by
from tests.waiting import exit_status, wait_until
from viewer.host.jobs import prewarm, processes
from viewer.host.jobs.files import storage_of
from viewer.host.jobs.following import clean_up_ended
from viewer.host.jobs.processes import PrewarmedRunner, receive
from viewer.host.jobs.starting import launch
from viewer.models import Job, Project

KEY = "canary-0123456789-canary"


def test_a_prewarmed_runner_has_the_same_surroundings_as_a_new_process(
    make_job: MakeJob, prewarmed: Warm, project: Project, tmp_path: Path, settings: Settings
) -> None:
    file = tmp_path / "keys.env"
    file.write_text(f"OPENAI_API_KEY={KEY}\n")
    Project.objects.update(environment_file=str(file))
    make_job("shows_environment.py")
    prewarmed()
    hot = reported_by(make_job, project)
    settings.PREWARM = False
    cold = reported_by(make_job, project)
    assert (hot.pop("is_warm"), cold.pop("is_warm")) == (True, False)
    assert hot["environment"].pop("TINY_MADE") == "by the engine"
    assert hot == cold
    assert cold["environment"]["OPENAI_API_KEY"] == KEY


def test_a_prewarmed_process_has_no_key_in_its_environment_or_memory(
    make_job: MakeJob, prewarmed: Warm, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", KEY + "-of-the-server")
    file = tmp_path / "keys.env"
    file.write_text(f"OPENAI_API_KEY={KEY}\n")
    (Path(project.folder) / ".env").write_text(f"OPENAI_API_KEY={KEY}\n")
    Project.objects.update(environment_file=str(file))
    make_job("shows_environment.py")
    process = only(prewarmed())
    assert is_warm(make_job, project)
    assert KEY.encode() not in Path(f"/proc/{process.pid}/environ").read_bytes()
    memory = memory_of(process.pid)
    assert b"tiny_engine" in memory
    assert KEY.encode() not in memory


def memory_of(process_id: int) -> bytes:
    """Return the memory of a process."""
    found = []
    with open(f"/proc/{process_id}/mem", "rb", buffering=0) as memory:
        for line in Path(f"/proc/{process_id}/maps").read_text().splitlines():
            first, last = (int(part, 16) for part in line.split()[0].split("-"))
            with contextlib.suppress(OSError, OverflowError):
                memory.seek(first)
                found.append(memory.read(last - first))
    return b"".join(found)


def test_the_exit_status_of_a_prewarmed_runner_is_known(make_job: MakeJob, prewarmed: Warm) -> None:
    job = make_job("exits.py")
    prewarmed()
    storage_of(job).create()
    child = launch(job)
    assert isinstance(child, PrewarmedRunner)
    assert exit_status(child) == 3
    assert (child.poll(), child.returncode) == (3, 3)


def test_a_crash_of_a_prewarmed_runner_has_the_same_message(make_job: MakeJob, prewarmed: Warm) -> None:
    job = make_job("exits.py")
    prewarmed()
    finished(job)
    assert (job.status, "exited with status 3" in str(job.error)) == ("failed", True)
    assert job.log_end == "about to leave\n"


def test_two_jobs_run_at_once_from_one_process(make_job: MakeJob, prewarmed: Warm, project: Project) -> None:
    jobs = [make_job("hangs.py"), make_job("hangs.py")]
    process = only(prewarmed())
    with followed(jobs[0]), followed(jobs[1]):
        wait_until(lambda: all(job.events.count() > 5 for job in jobs))
        pids = set(Job.objects.values_list("process_id", flat=True))
        assert {child.pid for child in psutil.Process(process.pid).children()} == pids
        Path(project.folder, "go").touch()
    assert [job.status for job in jobs] == ["succeeded", "succeeded"]
    assert sorted(marks(project)) == sorted(str(job.pk) for job in jobs)
    assert process.poll() is None


def test_cancelling_a_job_leaves_the_prewarmed_process_running(
    make_job: MakeJob, prewarmed: Warm, settings: Settings
) -> None:
    job = make_job("ignores_signals.py")
    settings.CANCEL_GRACE_SECONDS = 1
    process = only(prewarmed())
    with followed(job):
        wait_until(lambda: job.events.filter(kind="warning").exists())
        tree = processes.tree_of(storage_of(job))
        assert len(tree) == 3
        assert process.pid not in {one.pid for one in tree}
        job.request_cancel()
    assert job.status == "cancelled"
    assert not processes.living(tree)
    assert process.poll() is None


def test_a_cancelled_prewarmed_runner_reports_its_end(make_job: MakeJob, prewarmed: Warm) -> None:
    job = make_job("interruptible.py")
    prewarmed()
    with followed(job):
        wait_until(lambda: job.events.filter(kind="task_started").exists())
        job.request_cancel()
    assert (job.status, job.log_end) == ("cancelled", "tidied up\n")


def test_killing_the_prewarmed_process_leaves_its_job_running(
    make_job: MakeJob, prewarmed: Warm, project: Project
) -> None:
    job = make_job("hangs.py")
    process = only(prewarmed())
    with followed(job):
        wait_until(lambda: job.events.count() > 5)
        process.kill()
        process.wait()
        known = job.events.count()
        wait_until(lambda: job.events.count() > known)
        Path(project.folder, "go").touch()
    assert job.status == "succeeded"
    assert marks(project) == [str(job.pk)]
    assert not is_warm(make_job, project)


def test_a_fork_without_a_request_runs_nothing(make_job: MakeJob, prewarmed: Warm, project: Project) -> None:
    make_job("succeeds.py")
    process = only(prewarmed())
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
        with prewarm.address(prewarm.name_of(project, "crewai")) as path:
            asking.connect(path)
        pid = receive(asking, 10)["pid"]
    wait_until(lambda: not psutil.pid_exists(pid))
    assert marks(project) == []
    assert process.poll() is None


def test_a_prewarmed_runner_whose_job_was_given_up_is_ended(
    make_job: MakeJob, prewarmed: Warm, project: Project
) -> None:
    job = make_job("hangs.py")
    process = only(prewarmed())
    storage_of(job).create()
    assert isinstance(launch(job), PrewarmedRunner)
    wait_until(lambda: marks(project))
    # Its worker was killed, and a person gave up the job of a host that was away.
    assert job.end(Job.Status.INTERRUPTED)
    assert processes.end_orphan_processes() == [job]
    assert not processes.tree_of(storage_of(job)) and process.poll() is None
    clean_up_ended()
    assert processes.end_orphan_processes() == []

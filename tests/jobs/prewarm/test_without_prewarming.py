"""When a job does not use a prewarmed process, and when such a process ends."""

import contextlib
import errno
import json
import logging
import os
import resource
import socket
import sys
import threading
import venv
from pathlib import Path

import psutil
import pytest
from django.utils import timezone
from pytest_django import Settings

from prewarm_runner import PrewarmState, Surroundings, fork_for_one, installed_packages, other_threads
from tests.jobs.conftest import MakeJob, StartWorker, finished, marks, status
from tests.jobs.prewarm.conftest import Warm, is_warm, only
from tests.waiting import wait_until
from viewer.host.jobs import prewarm
from viewer.host.jobs.prewarm import PrewarmPool, maintain
from viewer.host.jobs.processes import receive
from viewer.models import Job, Project
from viewer.records.hosts import enqueue


def test_another_project_does_not_use_the_prewarmed_process(
    make_job: MakeJob, prewarmed: Warm, project: Project, tmp_path: Path
) -> None:
    job = make_job("shows_environment.py")
    prewarmed()
    folder = tmp_path / "another"
    folder.mkdir()
    other = Project.objects.create(
        folder=str(folder), interpreter=sys.executable, confirmed_at=timezone.now()
    )
    Job.objects.filter(pk=job.pk).update(project=other)
    finished(job)
    assert not json.loads((folder / "reported.json").read_text())["is_warm"]


@pytest.mark.parametrize(
    ("variable", "why"),
    [("TINY_COLOUR=green", "which the engine read"), ("PYTHONPATH=/nowhere", "which the interpreter read")],
)
def test_a_changed_variable_of_the_import_prevents_prewarming(
    make_job: MakeJob, prewarmed: Warm, project: Project, tmp_path: Path, variable: str, why: str
) -> None:
    make_job("shows_environment.py")
    prewarmed()
    assert is_warm(make_job, project)
    file = tmp_path / "keys.env"
    file.write_text(f"{variable}\n")
    Project.objects.update(environment_file=str(file))
    assert not is_warm(make_job, project), why
    assert len(marks(project)) == 2


def test_a_project_module_of_the_same_name_prevents_prewarming(
    make_job: MakeJob, prewarmed: Warm, project: Project
) -> None:
    make_job("shows_environment.py")
    prewarmed()
    Path(project.folder, "tiny_engine.py").touch()
    assert not is_warm(make_job, project)


def test_an_engine_with_threads_is_not_forked_and_that_is_logged(
    make_job: MakeJob, prewarmed: Warm, project: Project, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    make_job("shows_environment.py")
    settings.RUNNER_MODULES = {"crewai": "threaded_engine"}
    state = prewarmed()
    assert only(state).wait(60) == 1
    with caplog.at_level(logging.WARNING):
        prewarm.end_unneeded(state)
    assert "starts threads" in caplog.text
    assert not is_warm(make_job, project)
    # It is not tried again at each request.
    prewarm.start(state, project)
    assert not state.processes


def test_threads_that_end_while_they_are_counted_are_none() -> None:
    def short_threads() -> None:
        while not is_over.is_set():
            thread = threading.Thread(target=int)
            thread.start()
            thread.join()

    is_over, former = threading.Event(), sys.getswitchinterval()
    busy = threading.Thread(target=short_threads)
    sys.setswitchinterval(1e-5)
    busy.start()
    try:
        for _number in range(3_000):
            other_threads()
    finally:
        is_over.set()
        busy.join()
        sys.setswitchinterval(former)


def test_a_prewarmed_process_ends_when_idle_or_when_its_project_changes(
    make_job: MakeJob, prewarmed: Warm, project: Project, settings: Settings
) -> None:
    make_job("succeeds.py")
    settings.PREWARM_IDLE_SECONDS = 1
    idle = only(prewarmed())
    assert idle.wait(60) == 0
    settings.PREWARM_IDLE_SECONDS = 600
    state = prewarmed()
    process = only(state)
    Project.objects.update(confirmed_at=None)
    prewarm.end_unneeded(state)
    assert process.wait(60) == 0
    assert not state.processes


def test_a_prewarmed_process_ends_when_a_package_is_installed(
    make_job: MakeJob, prewarmed: Warm, project: Project, tmp_path: Path
) -> None:
    venv.create(tmp_path / "environment", with_pip=False)
    python = tmp_path / "environment/bin/python"
    Project.objects.update(interpreter=str(python))
    project.refresh_from_db()
    make_job("shows_environment.py")
    process = only(prewarmed())
    assert is_warm(make_job, project)
    (packages,) = (tmp_path / "environment/lib").glob("python3*/site-packages")
    (packages / "crewai-9.dist-info").mkdir()
    assert not is_warm(make_job, project)
    assert process.wait(60) == 0


def test_a_prewarmed_process_without_free_descriptors_refuses(
    make_job: MakeJob, prewarmed: Warm, project: Project
) -> None:
    make_job("shows_environment.py")
    process = only(prewarmed())
    _soft, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    opened = {int(path.name) for path in Path(f"/proc/{process.pid}/fd").iterdir()}
    lowest = min({*range(max(opened) + 2)} - opened)
    # The connection needs one, and the list of threads another.
    for free in (0, 1):
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (lowest + free, hard))
        assert not is_warm(make_job, project)
        assert process.poll() is None
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (hard, hard))
    assert is_warm(make_job, project)


@pytest.mark.parametrize("failing", ["os.fork", "socket.socket.accept"])
def test_a_prewarmed_process_that_cannot_fork_refuses_and_waits_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failing: str
) -> None:
    def fails(*_arguments: object) -> object:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, contextlib.ExitStack() as opened:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        state = PrewarmState(listener, -1, 60, tmp_path, sys, Surroundings({}), installed_packages())
        opened.callback(state.close_spare)
        asking = opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        asking.connect(str(tmp_path / "socket"))
        monkeypatch.setattr("prewarm_runner.other_threads", list)
        monkeypatch.setattr(failing, fails)
        assert fork_for_one(state) is None
        assert (state.children, state.is_closed) == ({}, False)
        monkeypatch.undo()
        if failing == "os.fork":
            assert receive(asking, 10) == {}


def test_a_full_pool_ends_the_least_recently_requested_process(
    make_job: MakeJob, prewarmed: Warm, project: Project, tmp_path: Path, settings: Settings
) -> None:
    make_job("succeeds.py")
    settings.PREWARM_PROCESSES = 1
    first = only(prewarmed())
    other = Project.objects.create(
        folder=str(tmp_path), interpreter=sys.executable, confirmed_at=timezone.now()
    )
    state = prewarmed(other)
    assert first.wait(60) == 0
    assert [one.project for one in state.processes.values()] == [other.pk]


def test_a_requested_process_ends_with_its_worker(
    make_job: MakeJob,
    start_worker: StartWorker,
    project: Project,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.PREWARM = True
    monkeypatch.setenv("TINY_WARM", "1")
    worker = start_worker("shows_environment.py")
    prewarm.request_prewarm(project)
    waiting = one_below(worker.pid)
    job = make_job("shows_environment.py")
    enqueue(job)
    wait_until(lambda: status(job) == "succeeded")
    assert json.loads((Path(project.folder) / "reported.json").read_text())["is_warm"]
    worker.kill()
    wait_until(lambda: not psutil.pid_exists(waiting.pid))


def one_below(worker: int) -> psutil.Process:
    """Return the prewarmed process of the worker once it waits."""
    found: list[psutil.Process] = []

    def waits() -> bool:
        found[:] = psutil.Process(worker).children()
        logs = list(prewarm.folder().glob("*.log"))
        return bool(found) and any("Waiting" in log.read_text() for log in logs)

    wait_until(waits)
    return found[0]


def test_no_process_is_prewarmed_if_it_is_switched_off(
    make_job: MakeJob, project: Project, settings: Settings
) -> None:
    settings.PREWARM = False
    make_job("succeeds.py")
    prewarm.request_prewarm(project)
    state = PrewarmPool()
    maintain(state)
    assert (state.processes, list(prewarm.folder().glob("*.request"))) == ({}, [])


def test_the_prewarm_folder_is_private(make_job: MakeJob, prewarmed: Warm, project: Project) -> None:
    make_job("succeeds.py")
    prewarmed()
    folder = prewarm.folder()
    assert folder.stat().st_mode & 0o077 == 0
    assert not [file for file in folder.iterdir() if file.stat().st_mode & 0o077]


def test_what_a_failed_process_printed_is_logged_without_secrets(
    prewarmed: Warm, project: Project, settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    program, file = tmp_path / "prewarm.py", Path(project.folder, ".env")
    file.write_text("SERVICE_PASSWORD='blue whale (north)'\n")
    program.write_text("import sys\nsys.exit('sk-canary0123456789abcdefghij ' + open('.env').read())")
    project.environment_file = str(file)
    project.save()
    settings.JOB_RUNNERS = {"crewai": str(program)}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(prewarm, "PREWARM_RUNNER", program)
        state = prewarmed()
    assert only(state).wait(60) == 1
    with caplog.at_level(logging.WARNING):
        prewarm.end_unneeded(state)
    assert "[redacted]" in caplog.text
    assert "sk-canary" not in caplog.text and "blue whale" not in caplog.text


def test_a_fork_that_refuses_too_late_is_a_job_that_was_not_started(
    make_job: MakeJob, prewarmed: Warm, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job("succeeds.py")
    only(prewarmed())
    (Path(project.folder) / "tiny_engine.py").touch()
    # As if it had not answered in time.
    monkeypatch.setattr(prewarm, "has_begun", lambda _connection: True)
    finished(job)
    assert marks(project) == [] and job.status == Job.Status.INTERRUPTED
    assert job.error is not None and job.error.code == "job.never_started"

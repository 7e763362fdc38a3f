"""Limits of all processes of a run together, its end, and what a person does meanwhile."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.jobs.conftest import MakeJob, finished, followed
from tests.jobs.isolation.conftest import ended, isolate
from tests.waiting import wait_until
from viewer.data_folder.locks import FileLock
from viewer.host import kernel
from viewer.host.jobs import process_tree, sandbox
from viewer.host.jobs.environment import MARKER
from viewer.host.jobs.files import storage_of
from viewer.host.jobs.processes import leader_of
from viewer.launching.start import send_answer
from viewer.models import Job, Project, Question
from viewer.records.isolation import (
    ALLOWED_HOSTS,
    LAUNCHERS,
    Isolation,
    IsolationRefused,
    isolation_of,
    missing,
)

EACH = ["process", "landlock", "bubblewrap"]
LIMITS = {
    "memory": {"memory_mb": 150},
    "seconds": {"cpu_seconds": 1},
    "processes": {"processes": 40},
    "wall": {"wall_seconds": 1},
}


def left(job: Job, folder: str) -> list[psutil.Process]:
    """The processes that still belong to the job, by what they were started with or where they work."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARKER) == str(job.pk) or process.cwd() == folder:
                found.append(process)
        except psutil.Error:
            continue
    return [one for one in found if one.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize("launcher", EACH)
@pytest.mark.parametrize("what", LIMITS)
def test_a_run_that_grows_is_ended_with_all_its_processes(
    make_job: MakeJob, project: Project, launcher: str, what: str
) -> None:
    (Path(project.folder) / "grow").write_text(what)
    job = ended(make_job, project, "grows.py", launcher=launcher, **LIMITS[what])
    assert job.status == "failed" and job.error.code == "isolation.limit_reached", (job.error, job.log_end)
    assert job.error.values["limit"] in LIMITS[what]
    assert job.isolation["limits"] == LIMITS[what]
    assert left(job, project.folder) == []


@pytest.mark.parametrize("launcher", EACH)
def test_a_cancelled_run_reports_its_end(make_job: MakeJob, project: Project, launcher: str) -> None:
    isolate(project, launcher=launcher, wall_seconds=100)
    job = make_job("interruptible.py")
    with followed(job):
        wait_until(lambda: job.events.filter(kind="task_started").exists())
        job.request_cancel()
    assert job.status == "cancelled" and "tidied up" in job.log_end
    assert left(job, project.folder) == []


@pytest.mark.parametrize("launcher", EACH)
def test_a_run_that_ignores_signals_is_killed(
    make_job: MakeJob, project: Project, launcher: str, settings: object
) -> None:
    isolate(project, launcher=launcher, wall_seconds=100)
    job = make_job("ignores_signals.py")
    settings.CANCEL_GRACE_SECONDS = 1  # type: ignore[attr-defined]
    with followed(job):
        wait_until(lambda: job.events.filter(kind="started").exists())
        job.request_cancel()
    assert job.status == "cancelled"
    assert left(job, project.folder) == []


@pytest.mark.parametrize("launcher", EACH)
@pytest.mark.parametrize("is_suspended", [False, True], ids=["", "supervisor-suspended"])
def test_a_cancelled_run_that_runs_away_is_caught(
    make_job: MakeJob, project: Project, launcher: str, is_suspended: bool, settings: object
) -> None:
    """Also if its supervisor gets no processor time."""
    isolate(project, launcher=launcher, open_files=200)
    job = make_job("runs_away.py")
    settings.CANCEL_GRACE_SECONDS = 1 if is_suspended else 8  # type: ignore[attr-defined]
    with followed(job):
        wait_until(lambda: (Path(project.folder) / "away").exists())
        if is_suspended:
            wait_until(lambda: Job.objects.get(pk=job.pk).process_id)
            psutil.Process(Job.objects.get(pk=job.pk).process_id).suspend()
        job.request_cancel()
    assert job.status == "cancelled"
    assert left(job, project.folder) == []
    assert not FileLock(Path(project.folder) / "away").is_held()


def test_a_supervisor_ends_what_a_listing_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, missed = (subprocess.Popen(["sleep", "60"]) for _number in range(2))
    listings = iter([*[{kept.pid}] * (process_tree.QUIET_LISTINGS + 2), {kept.pid, missed.pid}])
    monkeypatch.setattr(process_tree, "descendants_of", lambda _process: next(listings, {kept.pid}))
    process_tree.end_descendants(keep=kept.pid)
    assert (kept.wait(), missed.wait(timeout=60)) == (-signal.SIGKILL, -signal.SIGKILL)


def test_a_supervisor_ends_the_others_if_one_is_another_users(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(process: int, number: int) -> None:
        if process == foreign.pid:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        send(process, number)

    send = os.kill
    foreign, own = (subprocess.Popen(["sleep", "60"]) for _number in range(2))
    monkeypatch.setattr(os, "kill", refuses)
    monkeypatch.setattr(process_tree, "SECONDS_TO_DIE", 0.1)
    monkeypatch.setattr(process_tree, "descendants_of", lambda _process: {foreign.pid, own.pid})
    process_tree.end_descendants()
    monkeypatch.undo()
    foreign.kill()
    assert own.poll() is not None and foreign.wait() == -signal.SIGKILL


@pytest.mark.parametrize("launcher", EACH)
def test_a_killed_supervisor_takes_its_run_along(make_job: MakeJob, project: Project, launcher: str) -> None:
    isolate(project, launcher=launcher, wall_seconds=100)
    job = make_job("hangs.py")
    with followed(job):
        wait_until(lambda: job.events.filter(kind="started").exists())
        os.kill(Job.objects.get(pk=job.pk).process_id or 0, signal.SIGKILL)
    assert job.status == "interrupted"
    assert left(job, project.folder) == []


@pytest.mark.parametrize("launcher", EACH)
def test_a_person_answers_a_run(make_job: MakeJob, project: Project, launcher: str) -> None:
    isolate(project, launcher=launcher, wall_seconds=100)
    job = make_job("asks.py")
    with followed(job):
        wait_until(lambda: job.questions.exists())
        question = Question.objects.get(job=job)
        assert send_answer(question, "approved", None)
    assert job.status == "succeeded" and job.result == "approved", (job.error, job.log_end)


@pytest.mark.parametrize("launcher", EACH)
def test_the_status_of_a_program_that_fails_is_kept(
    make_job: MakeJob, project: Project, launcher: str
) -> None:
    job = ended(make_job, project, "exits.py", launcher=launcher, open_files=200)
    plain = finished(_plain(make_job, project))
    assert (job.status, str(job.error)) == (plain.status, str(plain.error))


def _plain(make_job: MakeJob, project: Project) -> Job:
    Job.objects.all().update(branch="ended")
    project.change_isolation({})
    return make_job("exits.py")


def test_memory_that_a_process_hides_is_counted() -> None:
    reading, writing = os.pipe()
    if not (child := os.fork()):
        # Another user, because root reads everything.
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        if not (hidden := os.fork()):
            kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
            kept = bytearray(os.urandom(1024) * 50_000)
            os.write(writing, b"x")
            time.sleep(60 + len(kept) * 0)
        os.read(reading, 1)
        found = process_tree.shared_once([psutil.Process(hidden)])
        os.kill(hidden, signal.SIGKILL)
        os._exit(0 if found > 50_000_000 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_plain_process_is_started_as_ever(make_job: MakeJob, project: Project) -> None:
    job = ended(make_job, project, "succeeds.py")
    assert job.status == "succeeded" and job.isolation == {}


def test_what_makes_no_sense_is_refused() -> None:
    for data, code in (
        ({"network": "none"}, "network_needs_sandbox"),
        ({"launcher": "systemd", "network": "none"}, "network_needs_sandbox"),
        ({"read": ["/data"]}, "folders_need_sandbox"),
        ({"launcher": "landlock", "read": ["data"]}, "folder_not_absolute"),
        ({"launcher": "landlock", "write": ["/data/../home"]}, "folder_not_absolute"),
        ({"memory_mb": 1}, "out_of_range"),
        ({"memory_mb": -5}, "out_of_range"),
        ({"memory_mb": 10**9}, "out_of_range"),
        ({"launcher": "jail"}, "malformed"),
        ({"sandboxed": True}, "malformed"),
        ([], "malformed"),
        ({"memory_mb": True}, "malformed"),
    ):
        with pytest.raises(IsolationRefused) as refused:
            isolation_of(data)
        assert refused.value.message.code == f"isolation.{code}", data


def test_a_launcher_is_offered_only_where_it_was_tried() -> None:
    found = sandbox.launchers()
    assert found["process"] == "" and set(found) == {*LAUNCHERS, ALLOWED_HOSTS}
    assert missing(Isolation(launcher="landlock"), {}) is not None
    assert missing(Isolation(launcher="landlock"), {"landlock": ""}) is None
    assert sandbox.reason_of(["no-such-program"]) == "no-such-program is not installed"
    assert sandbox.reason_of([sys.executable, "-c", "raise SystemExit('no bus')"]) == "no bus"


def test_allowed_hosts_are_really_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sandbox.launchers()[ALLOWED_HOSTS] == sandbox.without_allowed_hosts() == ""
    wanted = Isolation(launcher="bubblewrap", network="hosts", allow=("a:1",))
    found = {"bubblewrap": "", ALLOWED_HOSTS: "setns is forbidden"}
    refusal = missing(wanted, found)
    assert refusal is not None and "setns is forbidden" in str(refusal.values)
    assert missing(wanted, found | {ALLOWED_HOSTS: ""}) is None
    # The other networks of bubblewrap need nothing of this.
    assert missing(Isolation(launcher="bubblewrap", network="none"), found) is None
    monkeypatch.setenv("PATH", "/nowhere")
    assert "No such file" in sandbox.without_allowed_hosts()


def test_the_command_of_a_scope_has_its_limits() -> None:
    command = sandbox.scope_command({"memory_mb": 512, "processes": 20})
    assert command[0] == "systemd-run" and "--scope" in command and command[-1] == "--"
    assert "MemoryMax=512M" in command and "TasksMax=20" in command


@pytest.mark.parametrize("launcher", EACH)
def test_another_worker_cancels_a_run_that_was_not_recorded(
    make_job: MakeJob, project: Project, launcher: str
) -> None:
    isolate(project, launcher=launcher, wall_seconds=100)
    job = make_job("interruptible.py")
    with followed(job):
        wait_until(lambda: job.events.filter(kind="task_started").exists())
        recorded = Job.objects.get(pk=job.pk).process_id
        reported = job.events.get(kind="started").data["pid"]
        assert leader_of(reported, storage_of(job)) == recorded
        job.request_cancel()
    assert job.status == "cancelled"


@pytest.mark.parametrize("version", [1, 2])
def test_what_the_kernel_refuses_in_a_scope_is_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Only the control group is made up: CI has no systemd that starts scopes."""
    monkeypatch.setattr(process_tree, "CONTROL_GROUPS", tmp_path)
    limits = {"memory_mb": 150, "processes": 40}
    memory, tasks = process_tree.control_group("memory"), process_tree.control_group("pids")
    for folder in (memory, tasks):
        folder.mkdir(parents=True, exist_ok=True)
    events = memory / ("memory.oom_control" if version == 1 else "memory.events")
    events.write_text("oom_kill 0\n")
    (tasks / "pids.events").write_text("max 0\n")
    assert process_tree.refused_in_scope(limits) == ""
    (tasks / "pids.events").write_text("max 3\n")
    assert process_tree.refused_in_scope(limits) == "processes"
    assert process_tree.refused_in_scope({"memory_mb": 150}) == ""
    events.write_text("under_oom 0\noom_kill 1\n")
    assert process_tree.refused_in_scope(limits) == "memory_mb"
    process_tree.forbid_new_processes()
    assert (tasks / "pids.max").read_text() == "1"

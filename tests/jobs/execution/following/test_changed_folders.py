"""A run that makes its own folder unusable: its job ends once, with the reason, and starts no more."""

import ctypes
import errno
import logging
import os
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django import Settings

from tests.jobs.conftest import MakeJob, StartWorker, finished, followed, marks, status
from tests.waiting import wait_until
from viewer.host.jobs.events import deliver
from viewer.host.jobs.files import JobStorage, has_any_runner, storage_of, storages
from viewer.host.jobs.following import clean_up_ended, finish_orphans, orphaned_jobs
from viewer.host.jobs.processes import living, tree_of
from viewer.host.jobs.retention import delete_drafts, old_data, remove
from viewer.models import Job, Project, Question
from viewer.models.runs import SCRATCH_STORE
from viewer.records.hosts import enqueue

CHANGES = [
    *((how, after) for how in ("file", "link", "pipe", "closed", "spool") for after in ("on", "exits")),
    # If no runner reads the folder any more, this changes nothing.
    ("stop", "on"),
]
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1 << 1, 1 << 2


@pytest.fixture
def target(project: Project) -> Path:
    """Return a folder to which the job's folder may lead, with files that clean-up would delete."""
    path = Path(project.folder, "target")
    path.mkdir()
    path.chmod(0o755)
    for name in ("request.json", "checkpoint.json", "events.jsonl", SCRATCH_STORE):
        (path / name).write_text("mine")
    return path


def is_untouched(target: Path) -> bool:
    found = {path.name: path.read_text() for path in target.iterdir()}
    names = ("request.json", "checkpoint.json", "events.jsonl", SCRATCH_STORE)
    return found == dict.fromkeys(names, "mine") and target.stat().st_mode & 0o777 == 0o755


def respect_modes() -> None:
    """Have this thread open only what the modes of files permit, as any account but root does."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    # The first of them is in force.
    sets[0] &= ~(CAP_DAC_OVERRIDE | CAP_DAC_READ_SEARCH)
    assert libc.capset(header, sets) == 0


@pytest.mark.parametrize(("how", "after"), CHANGES)
def test_a_run_that_changes_its_own_folder_is_ended_once(
    how: str,
    after: str,
    make_job: MakeJob,
    project: Project,
    target: Path,
    settings: Settings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings.CANCEL_GRACE_SECONDS = 5
    Path(project.folder, "change").write_text(f"{how} {after}")
    job = make_job("changes_its_folder.py")
    with followed(job, respect_modes):
        wait_until(lambda: job.events.filter(kind="task_started").exists())
        tree = tree_of(storage_of(job))
        Path(project.folder, "read").touch()
    assert (job.status, job.error.code) == ("failed", "job.folder_changed"), (job.error, caplog.text)
    assert str(job.folder) in str(job.error)
    assert tree and not living(tree)
    assert marks(project) == [str(job.pk)] and orphaned_jobs() == []
    warnings = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert len(warnings) == 1 and "has changed its own folder" in caplog.text
    assert is_untouched(target)


def test_a_worker_ends_such_a_run_whose_follower_was_killed(
    make_job: MakeJob, project: Project, start_worker: StartWorker
) -> None:
    Path(project.folder, "change").write_text("file on")
    job = make_job("changes_its_folder.py")
    first = start_worker("changes_its_folder.py")
    enqueue(job)
    wait_until(lambda: job.events.filter(kind="task_started").exists())
    first.kill()
    first.wait()
    tree = tree_of(storage_of(job))
    Path(project.folder, "read").touch()
    wait_until(job.folder.is_file)
    start_worker("changes_its_folder.py", CANCEL_GRACE_SECONDS="2")
    wait_until(lambda: status(job) == "failed")
    assert tree and not living(tree)
    assert marks(project) == [str(job.pk)]


def test_a_follower_lock_that_leads_to_itself_ends_the_job(make_job: MakeJob, project: Project) -> None:
    """The next process cannot know whether another one follows the job."""
    Path(project.folder, "change").write_text("lock exits")
    Path(project.folder, "read").touch()
    job = make_job("changes_its_folder.py")
    assert finished(job).status == "failed"
    Job.objects.update(status=Job.Status.RUNNING)
    storage_of(job).create()
    assert (job.folder / "follower.lock").is_symlink()
    assert finished(job).error.code == "job.folder_changed"
    assert marks(project) == [str(job.pk)]


@pytest.mark.parametrize("is_link", [False, True])
def test_a_queued_job_whose_folder_was_replaced_never_starts(
    is_link: bool, make_job: MakeJob, project: Project, target: Path
) -> None:
    """Its row may be older than its run, and its log can no longer say so."""
    job = make_job()
    job.folder.parent.mkdir(exist_ok=True)
    if is_link:
        job.folder.symlink_to(target)
    else:
        job.folder.write_text("mine")
    assert finished(job).error.code == "job.folder_changed"
    assert (job.status, marks(project)) == ("failed", [])
    assert is_untouched(target)


@pytest.mark.parametrize("is_link", [False, True])
def test_nobody_who_answers_sees_or_follows_a_changed_folder(
    is_link: bool, make_job: MakeJob, target: Path
) -> None:
    """The process that follows the job ends it, with the reason."""
    job = make_job()
    question = Question.objects.create(job=job, number=1, kind="text_input", prompt="Which?", answer="yes")
    job.folder.parent.mkdir(exist_ok=True)
    if is_link:
        job.folder.symlink_to(target)
    else:
        job.folder.write_text("mine")
    for current in (Job.Status.RUNNING, Job.Status.FAILED):
        Job.objects.update(status=current)
        deliver(question)
    with pytest.raises(NotADirectoryError):
        storage_of(job).write_stop({"whose": "job"})
    assert is_untouched(target)


def test_a_log_that_leads_nowhere_says_that_the_job_was_started(make_job: MakeJob, project: Project) -> None:
    job = make_job()
    storage_of(job).create()
    (job.folder / "log.txt").symlink_to("gone")
    assert finished(job).status == "interrupted"
    assert marks(project) == []


def test_a_command_ends_such_a_job_without_a_worker(make_job: MakeJob, target: Path) -> None:
    job = make_job()
    Job.objects.update(status=Job.Status.RUNNING)
    job.folder.parent.mkdir(exist_ok=True)
    job.folder.symlink_to(target)
    assert finish_orphans() == [job]
    assert status(job) == "failed" and finish_orphans() == []


def test_a_changed_folder_is_neither_swept_nor_followed_through(make_job: MakeJob, target: Path) -> None:
    linked, replaced = make_job(), make_job()
    linked.folder.parent.mkdir(exist_ok=True)
    linked.folder.symlink_to(target)
    replaced.folder.write_text("mine")
    Job.objects.update(status=Job.Status.FAILED, ended_at=timezone.now() - timedelta(days=9))
    assert not has_any_runner(linked.folder.parents[1])
    clean_up_ended()
    delete_drafts()
    assert linked.folder.name not in {one.name for one in storages("jobs")}
    assert is_untouched(target)
    assert remove(old_data(None, 3))[1] == 2
    assert not os.path.lexists(linked.folder) and not replaced.folder.exists()
    assert is_untouched(target)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.EIO, errno.ESTALE])
def test_what_no_run_causes_ends_no_run(
    number: int, make_job: MakeJob, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a process without descriptors, or a folder of jobs that this account may not open."""
    job = make_job()
    storage = storage_of(job)
    storage.create()
    inside = str(storage.path / "events.jsonl")
    assert not storage.was_changed(OSError(number, "", inside))
    assert not storage.was_changed(OSError(errno.EACCES, "", str(storage.path.parent / "other")))
    assert not storage.was_changed(OSError(errno.EACCES, "", None))
    assert storage.was_changed(OSError(errno.EACCES, "", inside))
    monkeypatch.setattr(os, "access", lambda *_arguments: False)
    assert not storage.was_changed(OSError(errno.EACCES, "", inside))


def test_a_log_that_its_run_has_closed_is_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = JobStorage(tmp_path / "jobs" / "one")
    storage.create()
    storage.write_request({"inputs": "mine"})
    log = storage.path / "log.txt"
    log.write_text("sk-secret")
    log.chmod(0)

    def refuses(path: Path, *_arguments: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr("viewer.host.jobs.spool.open_regular", refuses)
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(path) != log)
    assert storage.read_log_end(100) == (b"", True)
    storage.clean_up(str)
    assert [*storage.path.iterdir()] == [log] and log.read_text() == "" and storage.was_started()

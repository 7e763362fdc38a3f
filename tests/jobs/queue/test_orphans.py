"""Orphaned jobs are adopted by another worker: no event is lost and no run starts twice."""

import os
import signal
import subprocess
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from django.utils import timezone

from tests.jobs.conftest import MakeJob, StartWorker, finished, marks, status
from tests.waiting import exit_status, wait_until
from viewer.data_folder.locks import worker_is_up
from viewer.host.jobs import following
from viewer.host.jobs.events import insert, redactor_of, rows_of
from viewer.host.jobs.files import FOLLOWER_LOCK, storage_of
from viewer.host.jobs.following import ensure_finished, orphaned_jobs
from viewer.host.jobs.spool import REQUEST, read_events
from viewer.host.jobs.starting import launch
from viewer.messages.message import plain_text
from viewer.models import Job, Project, Question
from viewer.records.hosts import enqueue

CANARY = "sk-canary0123456789abcdefghij"


def followed(make_job: MakeJob, start_worker: StartWorker) -> tuple[Job, "subprocess.Popen[bytes]"]:
    """Start a job that runs until its project has a file ``go``, and the worker that follows it."""
    job = make_job("hangs.py")
    worker = start_worker("hangs.py")
    enqueue(job)
    wait_until(lambda: job.events.count() > 5)
    job.refresh_from_db()
    return job, worker


def test_the_job_of_a_killed_worker_is_adopted_without_losing_events(
    make_job: MakeJob, start_worker: StartWorker, project: Project
) -> None:
    job, first = followed(make_job, start_worker)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    second = start_worker("hangs.py")
    known = job.events.count()
    wait_until(lambda: job.events.count() > known)
    Path(project.folder, "go").touch()
    wait_until(lambda: status(job) == "succeeded")
    job.refresh_from_db()
    seqs = list(job.events.values_list("seq", flat=True))
    assert seqs == list(range(1, int(job.result) + 3))
    assert marks(project) == [str(job.pk)]
    assert second.poll() is None


def test_stopping_a_worker_leaves_its_jobs_running(
    make_job: MakeJob, start_worker: StartWorker, project: Project
) -> None:
    job, worker = followed(make_job, start_worker)
    worker.terminate()
    assert worker.wait(60) == 0
    assert job.process_id
    assert psutil.pid_exists(job.process_id)
    assert status(job) == "running"
    assert not worker_is_up()
    Path(project.folder, "go").touch()
    ensure_finished(job)
    assert status(job) == "succeeded"
    assert marks(project) == [str(job.pk)]


def test_a_runner_killed_without_a_follower_is_interrupted(
    make_job: MakeJob, start_worker: StartWorker, project: Project
) -> None:
    job, first = followed(make_job, start_worker)
    first.kill()
    first.wait()
    assert job.process_id
    os.kill(job.process_id, signal.SIGKILL)
    start_worker("hangs.py")
    wait_until(lambda: status(job) == "interrupted")
    assert marks(project) == [str(job.pk)]


def test_a_job_claimed_by_a_worker_that_died_before_the_start_is_interrupted(
    make_job: MakeJob, project: Project
) -> None:
    job = make_job("succeeds.py")
    assert job.claim()
    assert orphaned_jobs() == [job]
    finished(job)
    assert job.status == "interrupted"
    assert "was not started" in str(job.error)
    assert marks(project) == []


def test_an_adopted_job_gets_the_outcome_in_its_spool(make_job: MakeJob, project: Project) -> None:
    job = make_job("succeeds.py")
    storage_of(job).create()
    child = launch(job)
    assert child
    assert exit_status(child) == 0
    # The process that followed it was killed in the middle.
    insert(rows_of(job, read_events(job.folder, 0)[0][:4], redactor_of(job.project)))
    finished(job)
    assert (job.status, job.result) == ("succeeded", "all done")
    assert list(job.events.values_list("seq", flat=True)) == list(range(1, 11))
    assert marks(project) == [str(job.pk)]


def test_a_job_that_has_ended_never_changes_again(make_job: MakeJob) -> None:
    job = make_job("succeeds.py")
    finished(job)
    ended_at = job.ended_at
    assert not job.end(Job.Status.FAILED, error=plain_text("late"))
    assert not job.mark_running()
    assert not job.claim()
    assert not job.request_cancel()
    job.refresh_from_db()
    assert (job.status, job.error, job.ended_at) == ("succeeded", None, ended_at)
    assert timezone.now() - job.created_at < timedelta(minutes=5)


def test_two_workers_run_each_of_many_jobs_exactly_once(
    make_job: MakeJob, start_worker: StartWorker, project: Project
) -> None:
    jobs = [make_job("succeeds.py") for _ in range(12)]
    for job in jobs:
        storage_of(job).create()
        enqueue(job)
        enqueue(job)
    start_worker("succeeds.py")
    start_worker("succeeds.py")
    wait_until(lambda: Job.objects.filter(status="succeeded").count() == len(jobs))
    assert sorted(marks(project)) == sorted(str(job.pk) for job in jobs)


def test_a_run_that_closes_its_folder_stops_no_other_job(make_job: MakeJob) -> None:
    closed, other = make_job(), make_job()
    for job in (closed, other):
        storage_of(job).create()
    Job.objects.update(status=Job.Status.RUNNING)
    lock = closed.folder / FOLLOWER_LOCK
    lock.symlink_to(lock)
    assert {job.pk for job in orphaned_jobs()} == {closed.pk, other.pk}


def test_what_a_killed_follower_left_of_an_ended_job_is_cleaned_up(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job()
    question = Question.objects.create(job=job, number=1, kind="text_input", prompt="Which?")
    assert question.record_answer(CANARY, None)
    with monkeypatch.context() as killed:
        killed.setattr(following, "redact_answers", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ensure_finished(job)
    job.refresh_from_db()
    assert job.status == "succeeded" and (job.folder / REQUEST).exists()
    under_way = make_job()
    storage_of(under_way).create()
    storage_of(under_way).write_request({})
    following.clean_up_ended()
    question.refresh_from_db()
    assert question.answer == "[redacted]"
    assert [path.name for path in job.folder.iterdir() if path.stat().st_size] == ["log.txt"]
    assert (under_way.folder / REQUEST).exists()

"""A queued job is cancelled at once, a running one with all its processes."""

import time

import psutil
from pytest_django import Settings

from tests.jobs.conftest import MakeJob, StartWorker, finished, followed, marks, status, wait_until
from viewer.jobs.execution.following.follow import ensure_finished
from viewer.jobs.execution.processes import living, tree_of
from viewer.jobs.queue.scheduling import enqueue
from viewer.jobs.storage import storage_of
from viewer.models import Job, Project

LONGEST_SECONDS = 15


def test_a_queued_job_is_cancelled_at_once_and_never_starts(make_job: MakeJob, project: Project) -> None:
    job = make_job("succeeds.py")
    assert job.request_cancel()
    assert job.status == "cancelled"
    ensure_finished(job)
    assert status(job) == "cancelled"
    assert marks(project) == []


def test_a_job_that_has_ended_cannot_be_cancelled(make_job: MakeJob) -> None:
    job = make_job("succeeds.py")
    finished(job)
    assert not job.request_cancel()
    assert (job.status, job.cancel_requested_at) == ("succeeded", None)


def test_a_cancelled_run_reports_its_end_and_keeps_its_log(make_job: MakeJob) -> None:
    job = make_job("interruptible.py")
    with followed(job, LONGEST_SECONDS):
        wait_until(lambda: job.events.filter(kind="task_started").exists())
        assert job.request_cancel()
        assert job.is_being_cancelled
    assert job.status == "cancelled"
    assert job.log_end == "tidied up\n"
    assert job.events.last().kind == "ended"  # type: ignore[union-attr]


def test_a_runner_that_ignores_signals_is_killed_with_all_its_processes(
    make_job: MakeJob, settings: Settings
) -> None:
    settings.CANCEL_GRACE_SECONDS = 1
    job = make_job("ignores_signals.py")
    with followed(job, LONGEST_SECONDS):
        wait_until(lambda: job.events.filter(kind="warning").exists())
        started = [int(pid) for pid in job.events.get(kind="warning").data["message"].split()]
        tree = {psutil.Process(pid) for pid in started} | tree_of(storage_of(job))
        assert len(tree) == 3
        begun = time.monotonic()
        job.request_cancel()
    assert job.status == "cancelled"
    assert time.monotonic() - begun < LONGEST_SECONDS
    assert not living(tree)
    assert job.log_end == "I do not stop\n"


def test_a_worker_ends_a_job_that_another_process_cancels(
    make_job: MakeJob, start_worker: StartWorker
) -> None:
    job = make_job("ignores_signals.py")
    start_worker("ignores_signals.py")
    enqueue(job)
    wait_until(lambda: job.events.filter(kind="warning").exists())
    tree = tree_of(storage_of(job))
    job.request_cancel()
    wait_until(lambda: status(job) == "cancelled", LONGEST_SECONDS)
    assert tree
    assert not living(tree)


def test_deleting_a_job_ends_all_its_processes(make_job: MakeJob) -> None:
    job = make_job("hangs.py")
    storage = storage_of(job)
    with followed(job, LONGEST_SECONDS):
        wait_until(lambda: job.events.count() > 5)
        tree = tree_of(storage)
        Job.objects.filter(pk=job.pk).delete()
    assert tree
    assert not living(tree)


def test_a_reused_process_id_gets_no_signal(make_job: MakeJob) -> None:
    job = make_job("hangs.py")
    stranger = psutil.Popen(["sleep", "600"], start_new_session=True)
    with followed(job, LONGEST_SECONDS):
        wait_until(lambda: status(job) == "running")
        child = Job.objects.get(pk=job.pk).process_id
        assert child
        Job.objects.filter(pk=job.pk).update(process_id=stranger.pid)
        psutil.Process(child).kill()
    ensure_finished(job)
    assert job.status == "interrupted"
    assert stranger.is_running()
    stranger.kill()
    stranger.wait()

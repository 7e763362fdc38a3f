"""A queued job is cancelled at once, a running one with all its processes."""

import psutil
import pytest
from pytest_django import Settings

from tests.jobs.conftest import MakeJob, StartWorker, finished, followed, marks, status
from tests.terminal import Terminal
from tests.waiting import wait_until
from viewer.host.jobs.files import storage_of
from viewer.host.jobs.following import ensure_finished
from viewer.host.jobs.processes import living, tree_of
from viewer.models import Job, Project
from viewer.records.hosts import enqueue


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
    with followed(job):
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
    with followed(job):
        wait_until(lambda: job.events.filter(kind="warning").exists())
        started = [int(pid) for pid in job.events.get(kind="warning").data["message"].split()]
        tree = {psutil.Process(pid) for pid in started} | tree_of(storage_of(job))
        assert len(tree) == 3
        job.request_cancel()
    assert job.status == "cancelled"
    assert not living(tree)
    assert job.log_end == "I do not stop\n"


def test_a_worker_ends_a_job_that_another_process_cancels(
    make_job: MakeJob, start_worker: StartWorker
) -> None:
    job = make_job("ignores_signals.py")
    start_worker("ignores_signals.py", CANCEL_GRACE_SECONDS="1")
    enqueue(job)
    wait_until(lambda: job.events.filter(kind="warning").exists())
    tree = tree_of(storage_of(job))
    job.request_cancel()
    wait_until(lambda: status(job) == "cancelled")
    assert tree
    assert not living(tree)


def test_deleting_a_job_ends_all_its_processes(make_job: MakeJob) -> None:
    job = make_job("hangs.py")
    storage = storage_of(job)
    with followed(job):
        wait_until(lambda: job.events.count() > 5)
        tree = tree_of(storage)
        Job.objects.filter(pk=job.pk).delete()
    assert tree
    assert not living(tree)


def test_a_reused_process_id_gets_no_signal(make_job: MakeJob) -> None:
    job = make_job("hangs.py")
    stranger = psutil.Popen(["sleep", "600"], start_new_session=True)
    with followed(job):
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


def test_a_waiting_job_is_cancelled_by_the_beginning_of_its_id(
    make_job: MakeJob,
    project: Project,
    terminal: Terminal,
) -> None:
    job = make_job("succeeds.py")
    for name in (str(job.pk), str(job.pk)[:10], job.pk.hex[:12], str(job.pk).upper()):
        Job.objects.update(status=Job.Status.QUEUED, cancel_requested_at=None, ended_at=None)
        assert terminal.document("cancel", name) == {
            "job": str(job.pk),
            "status": "cancelled",
            "cancelled": True,
        }
    assert finished(job).status == "cancelled" and marks(project) == []


def test_a_running_job_is_cancelled_and_waited_for(make_job: MakeJob, terminal: Terminal) -> None:
    job = make_job("hangs.py")
    with followed(job):
        wait_until(lambda: Job.objects.get(pk=job.pk).status == "running")
        answer = terminal.document("cancel", job.pk, "--wait")
    assert answer == {"job": str(job.pk), "status": "cancelled", "cancelled": True}


def test_a_job_that_has_ended_is_not_cancelled(make_job: MakeJob, terminal: Terminal) -> None:
    job = make_job("succeeds.py")
    finished(job)
    assert terminal.refused("cancel", job.pk)["cancelled"] is False
    assert finished(job).status == "succeeded"


@pytest.mark.parametrize("name", ["", "%", "_", "zz", "0" * 300, "a'b", "--"])
def test_a_name_without_a_job_is_refused(make_job: MakeJob, terminal: Terminal, name: str) -> None:
    job = make_job("succeeds.py")
    Job.objects.filter(pk=job.pk).update(branch="what-if")
    with pytest.raises(Exception, match=r"no job|must|required"):
        terminal.document("cancel", name)
    assert Job.objects.get(pk=job.pk).status == "queued"


def test_the_beginning_of_several_ids_cancels_none(make_job: MakeJob, terminal: Terminal) -> None:
    first = make_job("succeeds.py")
    other = f"{first.pk.hex[:8]}{'0' * 24}"
    Job.objects.create(id=other, kind=Job.Kind.FORK, location=first.location, project=first.project)
    with pytest.raises(Exception, match="Several jobs"):
        terminal.document("cancel", first.pk.hex[:8])
    assert set(Job.objects.values_list("status", flat=True)) == {"queued"}

"""A worker starts, follows and observes only what is on its host."""

from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from django.utils import timezone

from tests.jobs.conftest import MakeJob, StartWorker, finished, marks, status
from tests.waiting import wait_until
from viewer.host.jobs.following import orphaned_jobs
from viewer.host.locations.completing import complete_some, locations_to_describe
from viewer.host.permitted import host_of
from viewer.host.worker import register
from viewer.host_requests import DeliverAnswer
from viewer.models import Host, Job, Location, Project, Question, Run
from viewer.records.hosts import enqueue, give_up, is_stalled, next_job


@pytest.fixture
def elsewhere(transactional_db: None) -> Host:
    """Return a host of another machine, next to this one."""
    register("gpu-1", 4)
    return Host.objects.create(name="gpu-2", instance="elsewhere")


def moved(job: Job, host: Host) -> Job:
    Location.objects.filter(pk=job.location_id).update(host=host)
    job.refresh_from_db()
    return job


def test_a_job_of_another_host_is_neither_taken_nor_claimed(
    make_job: MakeJob, elsewhere: Host, project: Project
) -> None:
    job = make_job()
    assert next_job() == job
    moved(job, elsewhere)
    assert next_job() is None
    # Not even by a process that has read the row before.
    assert not job.claim()
    assert finished(job).status == Job.Status.QUEUED and marks(project) == []


def test_a_job_is_followed_by_the_host_that_claimed_it(make_job: MakeJob, elsewhere: Host) -> None:
    """Only that machine has its files, even if another host reads the location by then."""
    job = make_job()
    assert job.host is None and job.runs_on == job.location.host
    assert job.claim() and job.host == Host.own() and orphaned_jobs() == [job]
    moved(job, elsewhere)
    assert orphaned_jobs() == [job] and job.runs_on == Host.own()
    Job.objects.filter(pk=job.pk).update(host=elsewhere)
    assert orphaned_jobs() == [] and status(job) == Job.Status.STARTING


def test_a_queued_job_with_a_host_is_claimed_by_no_other(make_job: MakeJob, elsewhere: Host) -> None:
    job = make_job()
    Job.objects.filter(pk=job.pk).update(host=elsewhere)
    assert next_job() is None and not job.claim()


def test_a_question_goes_to_the_host_that_runs_its_job(make_job: MakeJob, elsewhere: Host) -> None:
    job = make_job()
    question = Question.objects.create(job=job, number=1, kind="human_input", asked_at=timezone.now())
    assert host_of(DeliverAnswer(question.pk)) == job.location.host_id
    Job.objects.filter(pk=job.pk).update(host=elsewhere, status=Job.Status.RUNNING)
    assert host_of(DeliverAnswer(question.pk)) == elsewhere.pk
    job.refresh_from_db()
    assert is_stalled(job) and give_up(job) and "gpu-2" in str(job.error)


def test_another_host_does_not_mark_a_scheduled_job_as_due(make_job: MakeJob, elsewhere: Host) -> None:
    """Else a paid run would start long after its time, once its host is back."""
    job = moved(make_job(), elsewhere)
    job.move_start(timezone.now() - timedelta(seconds=1))
    assert Job.objects.here().mark_due() == 0
    assert Job.objects.mark_due() == 1


def test_a_drained_host_takes_no_jobs_until_it_is_resumed(make_job: MakeJob, elsewhere: Host) -> None:
    job = make_job()
    here = Host.objects.get(name="gpu-1")
    here.change_drained(is_drained=True)
    assert next_job() is None
    here.change_drained(is_drained=False)
    elsewhere.change_drained(is_drained=True)
    assert next_job() == job


def test_a_worker_reads_only_its_own_locations(location: Location, elsewhere: Host, tmp_path: Path) -> None:
    # The folder at this path is of this machine, the location is not.
    other = Location.objects.create(path=location.path, store_kind="json", host=elsewhere)
    Run.objects.create(location=other, key="one", is_partly_listed=True)
    assert list(Location.objects.here()) == [location] and other.uid != location.uid
    assert locations_to_describe() == [location]
    complete_some()
    other.refresh_from_db()
    assert other.imported_at is None and other.read_error is None


def test_a_run_that_a_person_gave_up_is_ended_when_its_host_is_back(
    make_job: MakeJob, start_worker: StartWorker, project: Project
) -> None:
    job = make_job("hangs.py")
    lost_worker = start_worker("hangs.py")
    enqueue(job)
    wait_until(lambda: job.events.count() > 5)
    lost_worker.kill()
    lost_worker.wait()
    job.refresh_from_db()
    runner = psutil.Process(job.process_id)
    # As a web server of another machine does it.
    assert job.end(Job.Status.INTERRUPTED) and is_alive(runner)
    start_worker("hangs.py")
    wait_until(lambda: not is_alive(runner))
    assert status(job) == Job.Status.INTERRUPTED and marks(project) == [str(job.pk)]


def is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE

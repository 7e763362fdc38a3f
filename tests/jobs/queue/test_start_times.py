"""Start times: a job starts once, not earlier, and not automatically if the time is long past."""

import uuid
from datetime import timedelta
from typing import Any

from django.utils import timezone
from pytest_django import Settings

from tests.jobs.conftest import MakeJob, StartWorker, finished, marks, status
from tests.waiting import wait_until
from viewer.host.jobs.following import ensure_finished
from viewer.launching.requests import LaunchOptions, request_digest
from viewer.launching.start import move_start, start_job
from viewer.models import Checkpoint, DayLimits, Job, Project
from viewer.presentation.jobs.status import hint, lateness, wait_of, waiting
from viewer.records.hosts import enqueue, next_job

HOUR = timedelta(hours=1)


def scheduled(make_job: MakeJob, away: timedelta) -> Job:
    job = make_job("succeeds.py")
    Job.objects.filter(pk=job.pk).update(start_at=timezone.now() + away)
    job.refresh_from_db()
    return job


def test_a_job_is_not_started_before_its_start_time(make_job: MakeJob, project: Project) -> None:
    job = scheduled(make_job, HOUR)
    enqueue(job)
    assert next_job() is None
    ensure_finished(job)
    assert not job.claim()
    assert (status(job), marks(project)) == ("queued", [])


def test_two_workers_start_a_due_job_once(
    make_job: MakeJob, start_worker: StartWorker, project: Project
) -> None:
    job = scheduled(make_job, timedelta(seconds=2))
    for _ in range(2):
        start_worker("succeeds.py")
    wait_until(lambda: status(job) == "succeeded")
    job.refresh_from_db()
    assert job.start_at
    assert job.started_at
    assert job.started_at >= job.start_at
    assert marks(project) == [str(job.pk)]


def test_a_recently_missed_start_time_starts_late(make_job: MakeJob) -> None:
    job = scheduled(make_job, -timedelta(minutes=20))
    enqueue(job)
    assert next_job() == job
    finished(job)
    assert job.status == "succeeded"
    assert lateness(job) == "20 minutes late: no worker was running"


def test_a_long_missed_start_time_waits_for_a_person(
    make_job: MakeJob, project: Project, settings: Settings
) -> None:
    settings.START_GRACE_SECONDS = 600
    job = scheduled(make_job, -timedelta(minutes=20))
    enqueue(job)
    assert next_job() is None
    ensure_finished(job)
    assert (status(job), marks(project)) == ("queued", [])
    wait = wait_of(job)
    assert wait
    assert wait.needs_a_person
    assert "no worker was running" in wait.text
    assert move_start(job, None)
    assert next_job() == job
    ensure_finished(job)
    assert (status(job), marks(project)) == ("succeeded", [str(job.pk)])


def test_a_due_job_may_wait_for_a_slot_longer_than_the_grace(make_job: MakeJob, settings: Settings) -> None:
    settings.START_GRACE_SECONDS = 600
    job = scheduled(make_job, -2 * HOUR)
    Job.objects.filter(pk=job.pk).update(became_due_at=timezone.now() - 2 * HOUR)
    enqueue(job)
    assert next_job() == job
    ensure_finished(job)
    assert status(job) == "succeeded"


def test_a_changed_start_time_replaces_the_first(make_job: MakeJob) -> None:
    job = scheduled(make_job, -timedelta(minutes=1))
    enqueue(job)
    assert next_job() == job
    assert move_start(job, timezone.now() + HOUR)
    assert next_job() is None
    # A worker that took it before starts nothing.
    ensure_finished(job)
    assert status(job) == "queued"


def test_a_running_job_cannot_be_rescheduled(make_job: MakeJob) -> None:
    job = make_job()
    ensure_finished(job)
    assert not move_start(job, timezone.now() + HOUR)


def test_each_wait_has_a_message(
    make_job: MakeJob, start_worker: StartWorker, location: Any, project: Project
) -> None:
    at = scheduled(make_job, 24 * HOUR)
    soon = make_job("works_on.py")
    assert "No worker is running" in hint(at)
    assert next(wait.text for wait in waiting()).startswith("for a worker")
    DayLimits.change({"steps": 3})
    Job.objects.filter(pk=make_job().pk).update(status="succeeded", steps_used=3, started_at=timezone.now())
    wait = wait_of(soon)
    assert wait
    assert "the daily limit of 3 steps for all jobs is reached until" in wait.text


def test_jobs_wait_for_a_slot_of_a_full_worker(make_job: MakeJob, start_worker: StartWorker) -> None:
    jobs = [make_job("hangs.py") for _ in range(5)]
    for job in jobs:
        enqueue(job)
    start_worker("hangs.py")
    wait_until(lambda: Job.objects.under_way().count() == 4)
    left = Job.objects.queued().get()
    wait = wait_of(left)
    assert wait
    assert wait.text == "for a free slot: 4 of 4 busy"


def test_a_form_that_is_sent_again_finds_its_ended_job(checkpoint: Checkpoint) -> None:
    request = {
        "inputs": {"topic": "a private matter"},
        "outputs": {"task-1": {"text": "mine"}},
        "branch": "x",
    }
    terms = LaunchOptions(limits={"tokens": 5})
    job = start_job(
        checkpoint,
        checkpoint.location.project,
        Job.Kind.FORK,
        "x",
        request,
        [],
        idempotency_key=uuid.uuid4(),
        options=terms,
    )
    assert job.request_cancel()
    # The values that Retry fills the form with, without possible secrets.
    assert job.request.pop("kept") == {
        "inputs": {"topic": "a private matter"},
        "outputs": {"task-1": {"text": "mine"}},
        "state": {},
        "configurable": {},
        "context": {},
        "answers": {},
        "call": {},
    }
    assert job.request == {"inputs": {"topic": None}, "outputs": {"task-1": None}, "branch": "x"}
    assert job.request_digest == request_digest(request, terms)
    assert job.request_digest != request_digest({**request, "inputs": {"topic": "other"}}, terms)
    assert job.request_digest != request_digest(request, LaunchOptions())

"""A job that is to start at a time runs once in a PostgreSQL location."""

import pytest
from django.utils import timezone
from pytest_django import Settings

from tests.langgraph.launching.test_running import address, worker
from tests.langgraph.postgresql.test_running import FAN, Database, Made, made, rows
from tests.terminal import Terminal
from tests.waiting import wait_until
from viewer.models import Job, Location

__all__ = ["made", "worker"]


@pytest.fixture
def database(made: Made) -> Database:
    return made(("fan", "failed"), ("fan", "fan"))


@pytest.fixture
def threads(database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Location:
    """The location of the threads, which the worker's settings name as well."""
    connection = settings.POSTGRESQL_LOCATIONS["support"]
    monkeypatch.setenv("POSTGRESQL_LOCATIONS", f"support={connection}")
    return database.location()


def test_a_job_starts_at_its_time_and_runs_once(
    database: Database, threads: Location, worker: None, terminal: Terminal
) -> None:
    later = ("--at", "2099-01-01T00:00:00+00:00")
    head = address(rows(threads, "failed")[-1])
    job = Job.objects.get(pk=terminal.document("resume", head, *FAN, *later)["job"])
    new_turn = ("run", "postgresql:support", *FAN, "--thread", "fan", "--input", 'topic="mice"')
    now = Job.objects.get(pk=terminal.document(*new_turn)["job"])
    wait_until(lambda: Job.objects.get(pk=now.pk).has_ended, 300)
    job.refresh_from_db()
    assert (job.status, job.became_due_at) == (Job.Status.QUEUED, None)
    assert database.ran() == ["end", "left", "right", "start"]
    # Its time has come.
    Job.objects.filter(pk=job.pk).update(start_at=timezone.now())
    wait_until(lambda: Job.objects.get(pk=job.pk).has_ended, 300)
    # Whatever the worker would start again has been started before a later job.
    last = Job.objects.get(pk=terminal.document(*new_turn)["job"])
    wait_until(lambda: Job.objects.get(pk=last.pk).has_ended, 300)
    job.refresh_from_db()
    assert job.status == Job.Status.SUCCEEDED, job.error
    assert job.events.filter(kind="started").count() == 1
    assert database.ran() == ["end", "end", "left", "right", "right", "start"]

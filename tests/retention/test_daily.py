"""The worker removes old data once a day if the settings say so."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from tests.retention.test_retention import ended, kinds_of, location
from viewer.data_folder.locks import lock_named
from viewer.host import worker
from viewer.host.jobs.files import storage_of
from viewer.host.jobs.following import stopping
from viewer.host.jobs.retention import LOCK, remove_once_a_day
from viewer.models import Annotation, Checkpoint, Job, JobEvent, Location, StoredCopy

__all__ = ["location"]
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, settings: Any) -> Path:
    """A data folder of this test's own, so that no other test has removed anything today."""
    settings.DATA_DIR = tmp_path / "data"
    settings.DATA_DIR.mkdir()
    settings.RETENTION_EVENT_DAYS = settings.RETENTION_JOB_DAYS = None
    return Path(settings.DATA_DIR)


def test_it_is_off_by_default(location: Location, data_folder: Path) -> None:
    job = ended(location, 900, Job.Status.FAILED)
    assert remove_once_a_day() is None
    assert Job.objects.filter(pk=job.pk).exists() and not (data_folder / f"{LOCK}.lock").exists()


def test_old_data_is_removed_once_a_day(location: Location, settings: Any) -> None:
    settings.RETENTION_EVENT_DAYS, settings.RETENTION_JOB_DAYS = 30, 60
    ended(location, 31, Job.Status.SUCCEEDED, "checkpoint")
    failed = ended(location, 61, Job.Status.FAILED)
    events, jobs = remove_once_a_day() or (0, 0)
    assert (events > 0, jobs) == (True, 1) and not Job.objects.filter(pk=failed.pk).exists()
    again = ended(location, 61, Job.Status.FAILED)
    assert remove_once_a_day() is None and Job.objects.filter(pk=again.pk).exists()
    with lock_named(LOCK).held(note=(timezone.now() - timedelta(days=1)).date().isoformat()):
        pass
    assert remove_once_a_day() is not None and not Job.objects.filter(pk=again.pk).exists()


def test_one_of_several_workers_removes(location: Location, settings: Any) -> None:
    settings.RETENTION_JOB_DAYS = 60
    job = ended(location, 61, Job.Status.FAILED)
    with lock_named(LOCK).held() as is_ours:
        assert is_ours and remove_once_a_day() is None
    assert Job.objects.filter(pk=job.pk).exists()


def test_unfinished_jobs_and_what_people_have_stay(location: Location, settings: Any) -> None:
    settings.RETENTION_EVENT_DAYS = settings.RETENTION_JOB_DAYS = 2
    past = timezone.now() - timedelta(days=900)
    Annotation.objects.create(location_uid=location.uid, run_key="r", name="kept")
    unfinished = []
    for status in (Job.Status.QUEUED, Job.Status.STARTING, Job.Status.RUNNING):
        job = Job.objects.create(kind="run", location=location, status=status)
        JobEvent.objects.create(job=job, seq=1, kind="text", at=past)
        storage_of(job).create()
        unfinished.append(job)
    Job.objects.update(created_at=past)
    before = [model.objects.count() for model in (Checkpoint, StoredCopy, Annotation, Location)]
    assert remove_once_a_day() == (0, 0)
    assert all(kinds_of(job) == ["text"] for job in unfinished)
    assert [model.objects.count() for model in (Checkpoint, StoredCopy, Annotation, Location)] == before


def test_it_ends_early_when_the_worker_stops(location: Location, settings: Any) -> None:
    settings.RETENTION_EVENT_DAYS = settings.RETENTION_JOB_DAYS = 2
    job = ended(location, 61, Job.Status.FAILED)
    assert remove_once_a_day(lambda: True) == (0, 0)
    assert Job.objects.filter(pk=job.pk).exists()


def test_the_worker_removes(location: Location, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.RETENTION_JOB_DAYS = 2
    job = ended(location, 61, Job.Status.FAILED)
    # The connection is the test's own.
    monkeypatch.setattr(connection, "close", lambda: None)
    worker.in_thread("removing old data", remove_once_a_day, stopping.is_set)
    assert not Job.objects.filter(pk=job.pk).exists()

"""What is removed, and what stays."""

import json
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.imported import imported_location
from tests.real_stores import copy_of, hashes_below
from tests.settings import SERVER
from viewer.host.jobs.files import storage_of
from viewer.host.jobs.retention import old_data, remove
from viewer.models import Checkpoint, Job, JobEvent, Location, StoredCopy

pytestmark = pytest.mark.django_db
KINDS = ("started", "text", "model_completed", "ended")


@pytest.fixture
def location(tmp_path: Path, settings: Any) -> Location:
    settings.CHECKPOINT_ROOTS = [tmp_path]
    return imported_location(copy_of("1.15.30/json", tmp_path))


def ended(location: Location, days: int, status: Job.Status, *kinds: str) -> Job:
    """A job that ended this many days ago, with these events."""
    at = timezone.now() - timedelta(days=days)
    job = Job.objects.create(kind="run", location=location, status=status, ended_at=at)
    for seq, kind in enumerate((*KINDS, *kinds)):
        JobEvent.objects.create(job=job, seq=seq, kind=kind, at=at)
    storage_of(job).create()
    return job


def kinds_of(job: Job) -> list[str]:
    return list(job.events.order_by("seq").values_list("kind", flat=True))


def test_without_a_rule_nothing_is_removed(location: Location) -> None:
    job = ended(location, 900, Job.Status.FAILED)
    assert remove(old_data(None, None)) == (0, 0)
    assert kinds_of(job) == list(KINDS)


def test_old_events_are_removed_but_those_that_pages_need(location: Location) -> None:
    old = ended(location, 31, Job.Status.SUCCEEDED, "checkpoint")
    young = ended(location, 29, Job.Status.SUCCEEDED)
    running = Job.objects.create(kind="run", location=location, status=Job.Status.RUNNING)
    JobEvent.objects.create(job=running, seq=1, kind="text", at=timezone.now() - timedelta(days=90))
    assert remove(old_data(30, None)) == (2, 0)
    assert kinds_of(old) == ["started", "ended", "checkpoint"]
    assert kinds_of(young) == list(KINDS) and kinds_of(running) == ["text"]


def test_only_jobs_without_a_checkpoint_that_did_not_succeed_are_removed(location: Location) -> None:
    failed = ended(location, 31, Job.Status.FAILED)
    folder = Path(failed.folder)
    stay = [
        ended(location, 31, Job.Status.SUCCEEDED),
        ended(location, 31, Job.Status.FAILED, "checkpoint"),
        ended(location, 5, Job.Status.FAILED),
        Job.objects.create(kind="run", location=location, status=Job.Status.QUEUED),
    ]
    assert folder.exists()
    assert remove(old_data(None, 30)) == (0, 1)
    assert set(Job.objects.values_list("pk", flat=True)) == {job.pk for job in stay}
    assert not folder.exists()


def test_a_job_whose_scratch_store_holds_a_checkpoint_stays(location: Location) -> None:
    job = ended(location, 31, Job.Status.FAILED)
    first = location.checkpoints.first()
    assert first
    Checkpoint.objects.filter(pk=first.pk).update(source_key=f"scratch/{job.pk}/c")
    assert remove(old_data(None, 30)) == (0, 0)


def test_checkpoints_copies_and_files_stay(location: Location) -> None:
    ended(location, 900, Job.Status.FAILED)
    before = hashes_below(Path(location.path)), StoredCopy.objects.count(), location.checkpoints.count()
    remove(old_data(2, 2))
    assert before == (
        hashes_below(Path(location.path)),
        StoredCopy.objects.count(),
        location.checkpoints.count(),
    )


def test_the_command_counts_removes_and_shows_sizes(location: Location) -> None:
    ended(location, 31, Job.Status.FAILED)

    def cleaned(*options: str) -> dict[str, Any]:
        out = StringIO()
        call_command("checkpoints", "clean", "--json", *options, stdout=out)
        return dict(json.loads(out.getvalue()))

    assert (found := cleaned("--events", "30", "--jobs", "30", "--dry-run"))["jobs"] == 1
    assert found["events"] == 2 and Job.objects.count() == 1
    assert (cleaned("--jobs", "30")["jobs"], Job.objects.count()) == (1, 0)
    assert all(one["bytes"] >= 0 for one in cleaned()["stored"])
    with pytest.raises(CommandError, match="--jobs must be a whole number of 2 or more"):
        cleaned("--jobs", "0")


def test_the_page_shows_the_sizes(location: Location, reader: Client) -> None:
    html = reader.get(reverse("stored-data")).content.decode()
    assert "Stored copies of checkpoints" in html and "Events of jobs" in html


@pytest.mark.django_db(transaction=True)
def test_the_database_is_compacted(location: Location) -> None:
    call_command("checkpoints", "clean", "--compact", stdout=StringIO())
    assert location.checkpoints.exists()
    if SERVER:
        # Of later statements, and of other clients of a pooler.
        with connection.cursor() as cursor:
            cursor.execute("SHOW lock_timeout")
            assert cursor.fetchone() == ("0",)

"""Scratch stores hold real values: they are deleted once nobody can need them any more."""

from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from django.utils import timezone

from viewer.jobs.execution.ending.scratch_stores import delete_scratch_stores
from viewer.models import Checkpoint, Job, JobEvent, Location, Run
from viewer.models.runs import scratch_store_of

OLD, NEW = timedelta(days=31), timedelta(days=29)


@pytest.fixture
def run(db: None, tmp_path: Path) -> Run:
    location = Location.objects.create(path=str(tmp_path / "threads.db"), store_kind="sqlite")
    return Run.objects.create(location=location, key="fan", entity="graph")


def forked(run: Run, age: timedelta, *, status: str = "succeeded", writes: bool = True) -> Job:
    """A fork that ended so long ago, with its scratch store."""
    job = Job.objects.create(
        kind="fork",
        location=run.location,
        run=run,
        branch=str(uuid4()),
        status=status,
        ended_at=timezone.now() - age,
    )
    store = scratch_store_of(job.pk)
    store.parent.mkdir(parents=True)
    store.write_bytes(b"values")
    if writes:
        Checkpoint.objects.create(
            location=run.location,
            run=run,
            source_key=f"scratch/{job.pk}/fan/1",
            checkpoint_id="1",
            entity="graph",
        )
    return job


def published(job: Job) -> None:
    JobEvent.objects.create(job=job, seq=1, kind="published", at=timezone.now(), data={})


def is_there(job: Job) -> bool:
    delete_scratch_stores()
    return scratch_store_of(job.pk).exists()


def test_a_fork_that_may_be_published_keeps_its_store(run: Run) -> None:
    assert is_there(forked(run, OLD))


def test_a_published_fork_keeps_its_store_for_a_while(run: Run) -> None:
    old, new = forked(run, OLD), forked(run, NEW)
    published(old)
    published(new)
    assert not is_there(old) and is_there(new)


def test_a_fork_that_was_published_by_another_job_loses_its_store(run: Run) -> None:
    job = forked(run, OLD)
    row = Checkpoint.objects.get(run=run)
    published(Job.objects.create(kind="publish", location=run.location, run=run, checkpoint=row))
    assert not is_there(job)


def test_a_job_that_wrote_nothing_loses_its_store(run: Run) -> None:
    assert is_there(forked(run, NEW, writes=False)) and not is_there(forked(run, OLD, writes=False))


def test_an_unfinished_job_keeps_its_store(run: Run) -> None:
    assert is_there(forked(run, OLD, status="running", writes=False))


def test_the_store_is_deleted_with_its_run(run: Run) -> None:
    job = forked(run, NEW)
    run.delete()
    assert not is_there(job)


def test_a_store_whose_job_is_unknown_stays_for_a_while(run: Run) -> None:
    job = forked(run, NEW, writes=False)
    Job.objects.all().delete()
    assert is_there(job)

"""Scratch stores hold real values: they are deleted once nobody can need them any more."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from viewer.host.jobs.retention import delete_drafts, draft_files, sizes
from viewer.models import Checkpoint, Job, JobEvent, Location, Run
from viewer.models.runs import scratch_store_of
from viewer.records.locations import drafts_of

OLD, NEW = timedelta(days=31), timedelta(days=29)


@pytest.fixture
def run(db: None, tmp_path: Path, settings: Any) -> Run:
    settings.DATA_DIR = tmp_path / "data"
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
    delete_drafts()
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
    publication = {"location": run.location, "run": run, "checkpoint": row}
    published(Job.objects.create(kind="publish", status="succeeded", **publication))
    assert not is_there(job)


def test_a_job_that_wrote_nothing_loses_its_store(run: Run) -> None:
    assert is_there(forked(run, NEW, writes=False)) and not is_there(forked(run, OLD, writes=False))


def test_an_unfinished_job_keeps_its_store(run: Run) -> None:
    assert is_there(forked(run, OLD, status="running", writes=False))


def test_the_store_from_which_a_job_will_start_stays(run: Run) -> None:
    job = forked(run, OLD)
    published(job)
    row = Checkpoint.objects.get(run=run)
    later = Job.objects.create(kind="fork", location=run.location, run=run, checkpoint=row, branch="later")
    assert is_there(job)
    assert later.request_cancel() and not is_there(job)


def test_the_store_is_deleted_with_its_run(run: Run) -> None:
    job = forked(run, NEW)
    run.delete()
    assert not is_there(job)


def test_a_store_whose_job_is_unknown_stays_for_a_while(run: Run) -> None:
    job = forked(run, NEW, writes=False)
    Job.objects.all().delete()
    assert is_there(job)


def page_of(client: Client, address: str = "") -> str:
    return client.get(reverse("stored-data") + address).content.decode()


def rows_of(page: str) -> dict[str, str]:
    """Return the text of each row of the table of drafts, by the id of its job."""
    rows = re.findall(r'<tr>\s*<th scope="row">\s*<a href="/jobs/([^"/]+)/">(.*?)</tr>', page, re.DOTALL)
    return {job: " ".join(re.sub("<[^>]*>", " ", text).split()) for job, text in rows}


def test_the_page_shows_each_draft_with_its_date_of_removal(run: Run, reader: Client) -> None:
    open_, running = forked(run, OLD), forked(run, NEW, status="running", writes=False)
    empty, late = forked(run, timedelta(days=10), writes=False), forked(run, OLD, writes=False)
    published_ = forked(run, timedelta(days=12))
    published(published_)
    rows = rows_of(page_of(reader))
    assert set(rows) == {str(one.pk) for one in (open_, running, empty, late, published_)}
    day = timezone.localtime(empty.ended_at).date() + timedelta(days=30)
    assert f"{day.day} {day:%b %Y}" in rows[str(empty.pk)]
    day = timezone.localtime(published_.ended_at).date() + timedelta(days=30)
    assert " 1 6 B " in rows[str(published_.pk)]
    assert f"{day.day} {day:%b %Y}" in rows[str(published_.pk)]
    assert "when its run is removed, or 30 days after the fork" in rows[str(open_.pk)]
    assert "not while its job runs" in rows[str(running.pk)]
    assert "within an hour" in rows[str(late.pk)]


def test_the_removal_that_is_shown_is_the_removal(run: Run) -> None:
    jobs = [forked(run, timedelta(days=days), writes=bool(days % 2)) for days in (1, 2, 28, 29, 31, 32)]
    published(jobs[4])
    shown = {draft.job.pk: draft.removed_at for draft in drafts_of(draft_files()) if draft.job}
    due = {pk for pk, at in shown.items() if at is not None and at <= timezone.now()}
    assert delete_drafts() == len(due) == 2
    assert {job.pk for job in jobs if not scratch_store_of(job.pk).exists()} == due


def test_a_draft_whose_job_is_gone_is_shown(run: Run, reader: Client) -> None:
    forked(run, NEW)
    Job.objects.all().delete()
    page = page_of(reader)
    assert "of a job that is no longer listed" in page


def test_many_drafts_are_shown_in_pages(run: Run, reader: Client) -> None:
    for _number in range(51):
        forked(run, NEW, writes=False)
    first, second = page_of(reader), page_of(reader, "?page=2")
    assert (len(rows_of(first)), len(rows_of(second))) == (50, 1)
    assert "50 of 51" in first


def test_sizes_count_the_drafts(run: Run) -> None:
    forked(run, NEW)
    (drafts,) = (one for one in sizes() if one.label.startswith("Drafts"))
    assert (drafts.count, drafts.size) == (1, len(b"values"))

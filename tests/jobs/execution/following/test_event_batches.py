"""Followers of one process store their events together, and a failure concerns only its own job."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from uuid import UUID

import pytest
from django.db import IntegrityError, connection
from django.test.utils import CaptureQueriesContext

from tests.jobs.conftest import MakeJob, finished
from tests.waiting import exit_status, wait_until
from viewer.host.jobs.events import (
    MAX_READ_PAUSE_SECONDS,
    POLL_SECONDS,
    EventBatches,
    FollowerEvents,
    Pace,
    RedactedEvent,
    insert,
    redactor_of,
    rows_of,
)
from viewer.host.jobs.files import storage_of
from viewer.host.jobs.spool import read_events
from viewer.host.jobs.starting import launch
from viewer.models import Job, JobEvent

pytestmark = pytest.mark.django_db(transaction=True)
NOBODY = UUID(int=0)
AT = datetime(2026, 11, 21, 12, 30, 15, 250_000, UTC)


def rows(job: Job, *seqs: int) -> list[RedactedEvent]:
    return [RedactedEvent(job.pk, seq, "text", AT, {"text": f"é {seq}"}) for seq in seqs]


def stored(job: Job) -> list[int]:
    return list(JobEvent.objects.filter(job=job).order_by("seq").values_list("seq", flat=True))


def store_at_once(batches: EventBatches, *parts: list[RedactedEvent]) -> list[BaseException | None]:
    """Store these parts from a thread each. None begins before all of them wait."""

    def store(part: list[RedactedEvent]) -> None:
        try:
            batches.store(part)
        finally:
            connection.close()

    with ThreadPoolExecutor(len(parts)) as threads:
        with batches.writing:
            running = [threads.submit(store, part) for part in parts]
            wait_until(lambda: len(batches.waiting) == len(parts))
        return [one.exception() for one in running]


def test_an_event_is_stored_as_the_orm_would(make_job: MakeJob) -> None:
    job = make_job("succeeds.py")
    insert(rows(job, 1))
    event = JobEvent.objects.get(job=job)
    assert (event.seq, event.kind, event.at, event.data) == (1, "text", AT, {"text": "é 1"})


def test_an_event_that_is_stored_already_stays_as_it_is(make_job: MakeJob) -> None:
    job = make_job("succeeds.py")
    insert(rows(job, 1, 2))
    insert([row._replace(kind="other") for row in rows(job, 2, 3)])
    kinds = JobEvent.objects.filter(job=job).order_by("seq").values_list("seq", "kind")
    assert list(kinds) == [(1, "text"), (2, "text"), (3, "other")]


def test_who_adopts_a_job_writes_only_the_events_that_are_not_stored(make_job: MakeJob) -> None:
    job = make_job("succeeds.py")
    storage_of(job).create()
    child = launch(job)
    assert child is not None and exit_status(child) == 0
    events = read_events(job.folder, 0)[0]
    insert(rows_of(job, events[:4], redactor_of(job.project)))
    with CaptureQueriesContext(connection) as queries:
        finished(job)
    writes = [
        one["sql"] for one in queries if f"INTO {JobEvent._meta.db_table}" in one["sql"].replace('"', "")
    ]
    assert [sql.partition(" times")[0] for sql in writes] == [str(len(events) - 4)]
    assert len(stored(job)) == len(events)


class CountedBatches(EventBatches):
    """Batches that record how many followers shared each transaction."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: list[int] = []

    def store_parts(self, parts: Sequence[FollowerEvents]) -> None:
        self.counts.append(len(parts))
        super().store_parts(parts)


def test_followers_that_wait_share_a_transaction(make_job: MakeJob) -> None:
    jobs, batches = [make_job("succeeds.py") for _ in range(4)], CountedBatches()
    assert store_at_once(batches, *(rows(job, 1, 2) for job in jobs)) == [None] * 4
    assert batches.counts == [4]
    assert [stored(job) for job in jobs] == [[1, 2]] * 4


def test_a_follower_alone_does_not_wait_for_others(make_job: MakeJob) -> None:
    job, batches = make_job("succeeds.py"), CountedBatches()
    batches.store(rows(job, 1))
    batches.store(rows(job, 2))
    assert (batches.counts, stored(job)) == ([1, 1], [1, 2])


def test_the_events_of_a_deleted_job_do_not_concern_others(make_job: MakeJob) -> None:
    job = make_job("succeeds.py")
    gone = [row._replace(job=NOBODY) for row in rows(job, 1)]
    first, error, last = store_at_once(EventBatches(), rows(job, 1), gone, rows(job, 2))
    assert (first, last) == (None, None)
    assert isinstance(error, IntegrityError)
    assert stored(job) == [1, 2]


def test_a_row_that_cannot_be_stored_does_not_concern_others(make_job: MakeJob) -> None:
    job = make_job("succeeds.py")
    broken = [row._replace(data={"text": object()}) for row in rows(job, 1)]
    error, stored_later = store_at_once(EventBatches(), broken, rows(job, 2))
    assert isinstance(error, TypeError)
    assert stored_later is None
    assert stored(job) == [2]


def test_a_busy_process_reads_each_spool_less_often(make_job: MakeJob) -> None:
    pace, jobs = Pace(), [make_job("succeeds.py") for _ in range(3)]
    assert {pace.pause_after_events(job.pk) for job in jobs} == {POLL_SECONDS}
    pace.busy |= {UUID(int=number): float("inf") for number in range(40)}
    assert pace.pause_after_events(jobs[0].pk) == MAX_READ_PAUSE_SECONDS

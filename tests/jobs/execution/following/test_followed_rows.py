"""One query reads the rows of all followed jobs, and a failed query says nothing about them."""

from contextlib import ExitStack
from uuid import uuid4

import pytest
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext

from viewer.host.jobs.processes import FollowedRows
from viewer.models import Job, Location

pytestmark = pytest.mark.django_db


def jobs_at(location: Location, count: int) -> list[Job]:
    return [Job.objects.create(kind="run", location=location) for _number in range(count)]


def test_one_query_answers_for_all_followed_jobs(crew_location: Location) -> None:
    rows, jobs = FollowedRows(), jobs_at(crew_location, 4)
    jobs[1].request_cancel()
    Job.objects.filter(pk=jobs[2].pk).delete()
    with ExitStack() as stack:
        for job in jobs:
            stack.enter_context(rows.following(job.pk))
        with CaptureQueriesContext(connection) as captured:
            first = rows.cancellations_of(jobs[0].pk)
        # The other followers receive their rows from the same query, however slow this machine is.
        rows.read_at = float("inf")
        with CaptureQueriesContext(connection) as later:
            others = [rows.cancellations_of(job.pk) for job in jobs[1:]]
    assert len(captured) == 1 and len(later) == 0
    assert first == [None] and others[0] != [None] and others[1:] == [[], [None]]
    assert rows.jobs == set()


def test_a_job_that_is_followed_later_is_read_at_once(crew_location: Location) -> None:
    rows, (first, second) = FollowedRows(), jobs_at(crew_location, 2)
    rows.cancellations_of(first.pk)
    rows.read_at = float("inf")
    assert rows.cancellations_of(second.pk) == [None]
    assert rows.cancellations_of(uuid4()) == []


def test_a_failed_query_does_not_count_as_a_deletion(
    crew_location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, (job,) = FollowedRows(), jobs_at(crew_location, 1)

    def fail(*_arguments: object, **_values: object) -> None:
        raise DatabaseError("database is locked")

    with monkeypatch.context() as patch:
        patch.setattr(Job.objects, "filter", fail)
        with pytest.raises(DatabaseError):
            rows.cancellations_of(job.pk)
    assert rows.queried == frozenset()
    assert rows.cancellations_of(job.pk) == [None]

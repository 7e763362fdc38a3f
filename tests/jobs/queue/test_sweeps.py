"""A sweep is stored completely, and waits for its first job to warm up the cache."""

import uuid

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from viewer.launching.requests import LaunchOptions
from viewer.launching.sweep import Planned, start_group
from viewer.models import Checkpoint, Job, JobEvent, Level, Project, Role, Sweep
from viewer.presentation.jobs.status import wait_of, waiting
from viewer.records.hosts import next_job


@pytest.fixture
def forks(checkpoint: Checkpoint, project: Project) -> list[Planned]:
    return [Planned(one, f"try/{one}", {"options": {}}, [], checkpoint, project) for one in ("a", "b", "c")]


def ready() -> list[str]:
    """Return the branches of the jobs that may start, in order."""
    found: list[Job] = []
    while job := next_job([one.pk for one in found]):
        found.append(job)
    return [job.branch for job in found]


def test_without_a_warm_up_all_jobs_start_in_order(forks: list[Planned]) -> None:
    start_group("try", forks, uuid.uuid4(), LaunchOptions(limits={"tokens": 9}))
    assert ready() == ["try/a", "try/b", "try/c"]


def test_the_other_jobs_start_after_the_cache_warm_up(forks: list[Planned]) -> None:
    key = uuid.uuid4()
    group = start_group("try", forks, key, cache_warmup="shared_prefix")
    assert start_group("again", forks, key) == group
    assert ready() == ["try/a"]
    first = Job.objects.get(branch="try/a")
    JobEvent.objects.create(job=first, seq=1, kind="cache_warmed", at=timezone.now())
    assert ready() == ["try/a", "try/b", "try/c"]


def test_a_sweep_is_stored_completely_or_not_at_all(checkpoint: Checkpoint, forks: list[Planned]) -> None:
    key = uuid.uuid4()
    # The key of its second job is used by another row.
    Job.objects.create(kind=Job.Kind.FORK, location=checkpoint.location, idempotency_key=uuid.uuid5(key, "2"))
    with pytest.raises(Exception, match=r"(?i)unique"):
        start_group("try", forks, key)
    assert not Sweep.objects.exists() and Job.objects.count() == 1


def test_the_waiting_jobs_say_what_they_wait_for(forks: list[Planned]) -> None:
    group = start_group("try", forks, uuid.uuid4(), cache_warmup="parallel")
    waits = [wait_of(job) for job in group.jobs.order_by("created_at")]
    assert [wait.kind for wait in waits if wait] == ["worker", "cache", "cache"]
    assert waits[1] and "warms the prompt cache" in waits[1].text
    assert waits[1].url == group.get_absolute_url()


@pytest.mark.parametrize("cache_warmup", ["", "parallel"])
def test_the_list_of_waiting_jobs_needs_no_query_for_each(
    cache_warmup: str, checkpoint: Checkpoint, project: Project
) -> None:
    person = User.objects.create_user("ada")
    Role.objects.create(user=person, level=Level.OPERATOR)
    counts = []
    for count in (2, 12):
        Job.objects.all().delete()
        forks = [
            Planned(f"{one}", f"try/{one}", {"options": {}}, [], checkpoint, project) for one in range(count)
        ]
        start_group("try", forks, uuid.uuid4(), cache_warmup=cache_warmup)
        Job.objects.create(kind=Job.Kind.FORK, location=checkpoint.location, project=project)
        Job.objects.update(requested_by=person, requester_key=person.pk)
        with CaptureQueriesContext(connection) as queries:
            assert len(waiting()) == count + 1
        counts.append(len(queries))
    assert counts[0] == counts[1]

"""Quotas of teams: decided when a start is accepted, and again when a host claims the job."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from tests.jobs.conftest import MakeJob
from tests.jobs.limits.test_limits import ensured_finished
from viewer.host.jobs.starting import launch
from viewer.host_requests import JobRefused
from viewer.launching.refusals import LaunchRefused
from viewer.launching.requests import LaunchOptions
from viewer.launching.start import start_job
from viewer.launching.sweep import Planned, start_group
from viewer.models import Checkpoint, Job, JobEvent, Project, Role, Sweep, Team
from viewer.models.roles import Access, restricted_to
from viewer.presentation.jobs.status import limit_label, wait_of
from viewer.records.hosts import next_job
from viewer.records.limits import midnight, quota_refusal, reached_shared_limit, used_by_team

Start = Callable[..., Job]


@pytest.fixture
def ada(transactional_db: None) -> User:
    return _member("ada")


def _member(name: str, team: str = "writers") -> User:
    person = User.objects.create_user(name)
    Role.objects.create(user=person, level=2)
    Team.objects.get_or_create(name=team)[0].members.add(person)
    return person


def _quotas(**quotas: float) -> Team:
    team = Team.objects.get(name="writers")
    team.quotas = quotas
    team.save()
    return team


@pytest.fixture
def start(checkpoint: Checkpoint, project: Project) -> Start:
    """Return a function that starts a fork for a person, as every form does."""

    def started(person: User | None, name: str, **options: Any) -> Job:
        return start_job(
            checkpoint, project, Job.Kind.FORK, name, {}, [], person, options=LaunchOptions(**options)
        )

    return started


def _uses(person: User, job: Job, **used: Any) -> None:
    values = {"status": "succeeded", "started_at": timezone.now(), "ended_at": timezone.now(), **used}
    Job.objects.filter(pk=job.pk).update(**values)


def test_a_team_has_no_more_runs_at_once_than_its_quota(ada: User, start: Start) -> None:
    _quotas(runs=2)
    jobs = [start(ada, "one"), start(_member("eve"), "two")]
    with pytest.raises(JobRefused, match="Runs at once of the team writers: 2 of 2"):
        start(ada, "three")
    # Others and the terminal are not in the team.
    start(_member("otto", "others"), "three")
    start(None, "four")
    _uses(ada, jobs[0])
    start(ada, "five")
    assert Job.objects.count() == 5


def test_a_group_starts_whole_or_not_at_all(ada: User, start: Start, checkpoint: Checkpoint) -> None:
    _quotas(runs=3)
    start(ada, "one")
    planned = [Planned(name, name, {}, [], checkpoint, checkpoint.location.project) for name in "abc"]
    with pytest.raises(LaunchRefused, match="the team writers: 1 of 3, so these 3 cannot start"):
        start_group("three", planned, checkpoint.location.uid, requested_by=ada)
    assert Job.objects.count() == 1 and not Sweep.objects.exists()
    start_group("two", planned[:2], checkpoint.location.uid, requested_by=ada)
    assert Job.objects.count() == 3


@pytest.mark.parametrize(
    ("quotas", "used", "text"),
    [
        ({"tokens": 1000}, {"tokens": 1234}, "Tokens a day of the team writers: 1,234 of 1,000. "),
        ({"cost": 2.5}, {"cost": 2.5}, "has spent $2.50 of $2.50 a day. "),
    ],
)
def test_what_a_team_used_today_is_free_again_tomorrow(
    ada: User, start: Start, quotas: dict[str, float], used: dict[str, float], text: str
) -> None:
    _quotas(**quotas)
    job = start(ada, "one")
    _uses(ada, job, **used)
    with pytest.raises(JobRefused, match="Its quota is free again at ") as refused:
        start(ada, "two")
    assert text in str(refused.value)
    assert start(ada, "tomorrow", start_at=midnight(days=1) + timedelta(hours=1)).status == "queued"
    yesterday = timezone.now() - timedelta(days=2)
    Job.objects.filter(pk=job.pk).update(started_at=yesterday, ended_at=yesterday)
    assert start(ada, "three").status == "queued"


def test_what_a_run_of_yesterday_used_today_counts(ada: User, start: Start) -> None:
    team = _quotas(tokens=100, cost=1)
    job = start(ada, "one")
    _uses(ada, job, started_at=midnight() - timedelta(hours=1), tokens=5000, status="running", ended_at=None)
    call = {"model": "gpt-4o", "tokens": 150, "tokens_in": 100, "tokens_out": 50}
    for seq, at in enumerate((midnight() - timedelta(minutes=1), timezone.now()), 1):
        JobEvent.objects.create(job=job, seq=seq, at=at, kind="model_completed", data=call)
    assert used_by_team(team, "tokens") == 150
    assert 0 < used_by_team(team, "cost") < 0.01


def test_a_waiting_job_says_which_quota_it_waits_for(ada: User, start: Start) -> None:
    _quotas(runs=1)
    later = start(ada, "later", start_at=timezone.now() + timedelta(minutes=1))
    running = start(ada, "now")
    Job.objects.filter(pk=running.pk).update(status="running", started_at=timezone.now())
    Job.objects.filter(pk=later.pk).update(start_at=timezone.now() - timedelta(seconds=1))
    Job.objects.mark_due()
    later.refresh_from_db()
    assert next_job() is None and launch(later) is None
    later.refresh_from_db()
    wait = wait_of(later)
    assert later.status == "queued" and wait and wait.kind == "limit"
    assert wait.text.startswith("for a quota: Runs at once of the team writers: 1 of 1.")
    # Somebody who sees no job of the team sees why it waits as well.
    with restricted_to(lambda: Access(9)):
        assert reached_shared_limit(later)
    _uses(ada, running)
    assert next_job() == later


def test_a_running_job_stops_at_a_quota_and_says_which(ada: User, make_job: MakeJob) -> None:
    _quotas(tokens=30, runs=1)
    job = make_job("works_on.py")
    Job.objects.filter(pk=job.pk).update(requested_by=ada, requester_key=ada.pk)
    job.refresh_from_db()
    ensured_finished([job])
    assert job.status == "cancelled"
    assert re.match(r"Stopped at a quota\. Tokens a day of the team writers: \d+ of 30\. ", limit_label(job))


def test_who_sees_no_job_of_the_team_is_refused_as_well(ada: User, start: Start) -> None:
    _quotas(runs=1)
    start(ada, "one")
    with restricted_to(lambda: Access(ada.pk)):
        assert quota_refusal(ada.pk, 1)

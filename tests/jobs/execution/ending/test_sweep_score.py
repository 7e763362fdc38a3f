"""The end result of each branch of a sweep is scored once."""

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from tests.views.forking import CREW, create_location, stored
from viewer.cli.running import run_here
from viewer.host.jobs.following import queue_score
from viewer.models import Checkpoint, Job, Location, Sweep
from viewer.presentation.jobs.status import wait_of
from viewer.records.accounts import teammate
from viewer.records.collections import Subject, add_items, collection_named, score_key, scoring_of
from viewer.records.hosts import next_job
from viewer.records.limits import shared_usage
from viewer.records.permissions import may_start

JUDGE = (
    "def done(checkpoint, expected=''):\n"
    "    return 9 if expected else sum(task['done'] for task in checkpoint['tasks'])\n"
)


@pytest.fixture
def location(transactional_db: None, tmp_path: Path) -> Location:
    """A location in a confirmed project with a function that scores, and this Python."""
    location = create_location((tmp_path / "newsroom").resolve())
    assert location.project
    (Path(location.project.folder) / "judge.py").write_text(JUDGE)
    location.project.change(interpreter=sys.executable, environment_file="", entry_points=["crew:build"])
    location.project.confirm(None)
    return location


def member(location: Location, sweep: Sweep, branch: str, **crew: Any) -> Job:
    """A succeeded fork of the sweep, with its last checkpoint."""
    checkpoint = stored(location, {**CREW, **crew})
    Checkpoint.objects.filter(pk=checkpoint.pk).update(branch=branch, recorded_branch=branch)
    return Job.objects.create(
        kind=Job.Kind.FORK,
        location=location,
        project=location.project,
        run=checkpoint.run,
        branch=branch,
        sweep=sweep,
        status=Job.Status.SUCCEEDED,
    )


def test_each_end_result_is_scored_once_and_the_page_names_the_winner(
    location: Location, client: Client
) -> None:
    sweep = Sweep.objects.create(name="tone", score="judge:done")
    jobs = [
        member(location, sweep, "tone/all"),
        member(location, sweep, "tone/one", tasks=CREW["tasks"][:1]),
    ]
    for job in [*jobs, jobs[0]]:
        queue_score(job)
    scoring = scoring_of(jobs)
    assert Job.objects.filter(kind="score").count() == 2
    assert scoring[jobs[0].pk].idempotency_key == score_key(jobs[0])
    client.force_login(User.objects.create_superuser("admin"))
    page = client.get(sweep.get_absolute_url()).content.decode()
    assert " won with " not in page and 'hx-trigger="every 2s"' in page
    for one in scoring.values():
        run_here(one)
    done = scoring_of(jobs)
    assert [json.loads(done[job.pk].result) for job in jobs] == [2, 1]
    page = client.get(sweep.get_absolute_url()).content.decode()
    assert "tone/all won with 2." in page and "every 2s" not in page
    assert page.index("tone/all</a></th>") < page.index("tone/one</a></th>")
    page = client.get(sweep.get_absolute_url(), {"sort": "score"}).content.decode()
    assert page.index("tone/one</a></th>") < page.index("tone/all</a></th>")
    assert 'aria-sort="ascending"' in page


def test_a_function_gets_the_expected_answer(location: Location) -> None:
    job = member(location, Sweep.objects.create(name="tone", score="judge:done"), "tone/all")
    collection = collection_named("teas", None)
    Sweep.objects.update(collection=collection)
    Job.objects.update(checkpoint=Checkpoint.objects.get())
    add_items(collection, [Subject(Checkpoint.objects.get())], None, expected="Green")
    scoring = queue_score(Job.objects.get(pk=job.pk))
    assert scoring
    run_here(scoring)
    scoring.refresh_from_db()
    assert json.loads(scoring.result) == 9


def test_nothing_is_scored_for_a_deleted_account(location: Location) -> None:
    job = member(location, Sweep.objects.create(name="tone", score="judge:done"), "tone/all")
    person = teammate("ada", may="run")
    Job.objects.update(requested_by=person, requester_key=person.pk)
    person.delete()
    scoring = queue_score(Job.objects.get(pk=job.pk))
    assert scoring
    run_here(scoring)
    scoring.refresh_from_db()
    assert scoring.status == Job.Status.QUEUED and not may_start(scoring)


def test_a_score_shares_the_limits_of_its_sweep(location: Location) -> None:
    sweep = Sweep.objects.create(name="tone", score="judge:done", limits={"seconds": 60})
    jobs = [member(location, sweep, "tone/all"), member(location, sweep, "tone/one", tasks=CREW["tasks"][:1])]
    first, second = (queue_score(job) for job in jobs)
    assert first and second and [one.pk for one in sweep.branches] == [job.pk for job in jobs]
    Job.objects.filter(pk=first.pk).update(
        status="succeeded", started_at=timezone.now() - timedelta(seconds=61), ended_at=timezone.now()
    )
    assert shared_usage("sweep", second)["seconds"] > 60
    # The terminal does not wait for what will not start.
    run_here(second)
    second.refresh_from_db()
    assert second.status == "queued" and wait_of(second).kind == "limit"  # type: ignore[union-attr]
    assert next_job() is None


def test_only_a_completed_branch_of_a_sweep_with_a_function_is_scored(location: Location) -> None:
    with_function = Sweep.objects.create(name="tone", score="judge:done")
    failed = member(location, with_function, "tone/failed")
    failed.status = Job.Status.FAILED
    paused = member(location, with_function, "tone/paused")
    paused.stopped_before = ["editor"]
    empty = member(location, with_function, "tone/empty")
    empty.branch = "tone/elsewhere"
    without = member(location, Sweep.objects.create(name="plain"), "plain/a")
    assert [queue_score(job) for job in (failed, paused, empty, without)] == [None] * 4

"""Limits stop runs like a cancellation, are shared between jobs, and delay queued jobs."""

import math
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.utils import timezone

from forkline_runner.reporting import LimitCounter, Reporter
from tests.jobs.conftest import MakeJob, StartWorker, marks, status
from tests.waiting import wait_until
from viewer.cli.running import run_here
from viewer.host.jobs.files import storage_of
from viewer.host.jobs.following import ensure_finished
from viewer.host.jobs.spool import STOP, Spool, read_events
from viewer.host.jobs.starting import launch
from viewer.models import DayLimits, Job, JobEvent, Project, Sweep
from viewer.presentation.jobs.status import limit_label
from viewer.records.hosts import enqueue, next_job
from viewer.records.limits import midnight, reached_shared_limit, seconds_of, usage_of


@contextmanager
def being_finished(jobs: Sequence[Job]) -> Iterator[None]:
    """Follow all jobs at the same time, each in a thread, to their ends."""

    def finish_one(job: Job) -> None:
        ensure_finished(Job.objects.get(pk=job.pk))
        connection.close()

    with ThreadPoolExecutor(len(jobs)) as followers:
        threads = [followers.submit(finish_one, job) for job in jobs]
        try:
            yield
        except BaseException:
            for job in jobs:
                job.request_cancel()
            raise
        for one in threads:
            one.result()
    for job in jobs:
        job.refresh_from_db()


def ensured_finished(jobs: Sequence[Job]) -> None:
    with being_finished(jobs):
        pass


def used(job: Job) -> int:
    """Return the tokens that the row of the job has used so far."""
    return Job.objects.values_list("tokens", flat=True).get(pk=job.pk)


def limited(make_job: MakeJob, **limits: float) -> Job:
    job = make_job("works_on.py")
    Job.objects.filter(pk=job.pk).update(limits=limits)
    job.refresh_from_db()
    return job


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ({"tokens": 30}, "Stopped at its limit of 30 tokens."),
        ({"steps": 2}, "Stopped at its limit of 2 steps."),
        ({"seconds": 1}, "Stopped at its limit of 1 second."),
    ],
)
def test_a_run_stops_at_its_own_limit_with_a_message(
    make_job: MakeJob, limits: dict[str, float], text: str
) -> None:
    job = limited(make_job, **limits)
    ensured_finished([job])
    assert (job.status, job.cancel_requested_at) == ("cancelled", None)
    used = r"( It had used [0-9.]+ (tokens|steps|seconds), [0-9.]+ \w+ more\.)?"
    assert re.fullmatch(re.escape(text) + used, limit_label(job))
    assert job.events.order_by("seq").last().kind == "ended"  # type: ignore[union-attr]


def test_a_run_that_ends_exactly_at_its_limit_succeeds(make_job: MakeJob) -> None:
    job = make_job("succeeds.py")
    Job.objects.filter(pk=job.pk).update(limits={"tokens": 20, "steps": 2})
    ensured_finished([job])
    assert (job.status, job.limit_hit, job.tokens, job.steps_used) == ("succeeded", {}, 20, 2)


def test_the_jobs_of_a_project_share_its_daily_limit(make_job: MakeJob, project: Project) -> None:
    project.change_limits({"tokens": 240})
    rounds = Path(project.folder, "rounds")
    rounds.write_text("12")
    jobs = [make_job("works_on.py") for _ in range(2)]
    with being_finished(jobs):
        # Each job is far from the limit, but their sum has reached it.
        wait_until(lambda: [used(job) for job in jobs] == [120, 120])
        rounds.write_text("1000000")
    assert [job.status for job in jobs] == ["cancelled", "cancelled"]
    assert {limit_label(job) for job in jobs} == {"Stopped at the project's limit of 240 tokens a day."}


def test_the_variations_of_a_sweep_share_its_limit(make_job: MakeJob) -> None:
    group = Sweep.objects.create(name="three topics", limits={"steps": 8})
    jobs = [make_job("works_on.py") for _ in range(2)]
    Job.objects.update(sweep=group)
    ensured_finished(jobs)
    assert {limit_label(job) for job in jobs} == {"Stopped at the limit of 8 steps for all its variations."}


def test_the_usage_of_all_projects_counts_against_the_daily_limit(
    make_job: MakeJob, project: Project
) -> None:
    DayLimits.change({"tokens": 100})
    other = make_job("succeeds.py")
    elsewhere = Project.objects.create(folder="/elsewhere", interpreter=project.interpreter)
    Job.objects.filter(pk=other.pk).update(
        project=elsewhere, status="succeeded", tokens=60, started_at=timezone.now(), ended_at=timezone.now()
    )
    rounds = Path(project.folder, "rounds")
    rounds.write_text("4")
    job = make_job("works_on.py")
    with being_finished([job]):
        wait_until(lambda: used(job) == 40)
        rounds.write_text("1000000")
    assert limit_label(job) == "Stopped at the limit of 100 tokens a day for all jobs."


def test_a_queued_job_starts_when_its_limit_has_room(make_job: MakeJob, project: Project) -> None:
    project.change_limits({"tokens": 50})
    earlier = make_job("succeeds.py")
    Job.objects.filter(pk=earlier.pk).update(
        status="succeeded", tokens=50, started_at=timezone.now(), ended_at=timezone.now()
    )
    job = make_job("succeeds.py")
    assert next_job() is None
    ensure_finished(job)
    assert (status(job), marks(project)) == ("queued", [])
    project.change_limits({"tokens": 500})
    assert next_job() == job
    ensure_finished(job)
    assert (status(job), marks(project)) == ("succeeded", [str(job.pk)])


def test_a_daily_limit_counts_usage_since_midnight(make_job: MakeJob) -> None:
    before, across = make_job(), make_job()
    begin = midnight()
    hour = timedelta(hours=1)
    Job.objects.filter(pk=before.pk).update(
        status="succeeded", tokens=100, steps_used=5, started_at=begin - 2 * hour, ended_at=begin - hour
    )
    Job.objects.filter(pk=across.pk).update(
        status="succeeded", tokens=70, steps_used=2, started_at=begin - hour, ended_at=begin + hour
    )
    for seq, (at, tokens) in enumerate([(begin - hour, 40), (begin + hour, 30)], 1):
        JobEvent.objects.create(
            job=across, seq=seq, kind="model_completed", at=at, data={"tokens": tokens, "total_tokens": 70}
        )
    JobEvent.objects.create(job=across, seq=3, kind="task_completed", at=begin + hour)
    assert usage_of(Job.objects.all(), begin) == {"tokens": 30, "steps": 1, "seconds": 3600}
    assert usage_of(Job.objects.all())["tokens"] == 170


def test_waiting_for_a_person_does_not_count_as_usage(make_job: MakeJob) -> None:
    job = make_job()
    start = timezone.now() - timedelta(seconds=100)
    job.started_at, job.ended_at = start, start + timedelta(seconds=100)
    waits = [
        (start + timedelta(seconds=10), start + timedelta(seconds=40)),
        (start + timedelta(seconds=60), None),
    ]
    assert seconds_of(job, waits) == 30


def test_counting_continues_after_a_worker_is_killed(
    make_job: MakeJob, start_worker: StartWorker, project: Project
) -> None:
    rounds = Path(project.folder, "rounds")
    rounds.write_text("3")
    job = limited(make_job, tokens=50)
    first = start_worker("works_on.py")
    enqueue(job)
    wait_until(lambda: Job.objects.get(pk=job.pk).tokens == 30)
    first.kill()
    first.wait()
    rounds.write_text("1000000")
    start_worker("works_on.py")
    wait_until(lambda: status(job) == "cancelled")
    job.refresh_from_db()
    assert limit_label(job).startswith("Stopped at its limit of 50 tokens.")
    assert marks(project) == [str(job.pk)]


def test_a_limit_passed_without_a_follower_is_enforced_at_once(make_job: MakeJob, project: Project) -> None:
    Path(project.folder, "rounds").write_text("8")
    job = limited(make_job, tokens=50)
    storage_of(job).create()
    child = launch(job)
    assert child
    wait_until(lambda: any(line["data"].get("position") == 8 for line in read_events(job.folder, 0)[0]))
    ensured_finished([job])
    assert limit_label(job).startswith("Stopped at its limit of 50 tokens.")
    assert job.status == "cancelled"


def test_raising_a_limit_lets_the_run_continue(make_job: MakeJob, project: Project) -> None:
    project.change_limits({"tokens": 20})
    job = make_job("succeeds.py")
    Job.objects.filter(pk=job.pk).update(status="running", tokens=20, started_at=timezone.now())
    assert reached_shared_limit(job)
    project.change_limits({"tokens": 40})
    assert reached_shared_limit(job) is None


def test_a_cancellation_before_the_limit_counts_as_cancelled(make_job: MakeJob) -> None:
    job = make_job("works_on.py")
    Job.objects.filter(pk=job.pk).update(status="running", cancel_requested_at=timezone.now())
    assert not job.stop({"whose": "job", "measure": "steps", "max_amount": 1})
    assert job.limit_hit == {}


def test_limits_are_enforced_without_a_worker(make_job: MakeJob) -> None:
    job = limited(make_job, steps=1)
    run_here(job)
    assert job.status == "cancelled"
    used = r"Stopped at its limit of 1 step\. It had used \d+ steps, \d+ steps? more\."
    assert re.fullmatch(used, limit_label(job))


def test_a_stopped_job_keeps_its_first_limit(make_job: MakeJob) -> None:
    job = make_job("works_on.py")
    Job.objects.filter(pk=job.pk).update(status="running")
    assert job.stop({"whose": "day", "measure": "tokens", "max_amount": 1})
    assert not job.stop({"whose": "job", "measure": "steps", "max_amount": 1})
    assert limit_label(job) == "Stopped at the limit of 1 token a day for all jobs."


@pytest.mark.parametrize(
    "plain",
    [
        *({"whose": "unknown"}, {"whose": "nobody", "measure": "tokens", "max_amount": 1}, ["day"], "a text"),
        *(
            {"whose": "day", "measure": "tokens", "max_amount": most}
            for most in (None, "1", math.nan, math.inf)
        ),
        {"whose": "day", "measure": "money", "max_amount": 1},
    ],
)
def test_an_unknown_limit_has_a_message(plain: object) -> None:
    assert limit_label(Job(limit_hit=plain)) == "Stopped at a limit that it shares with other runs."


@pytest.mark.parametrize("said", [b"Stopped at a limit.", b"[]", b'{"whose": "day"', b"\xff"])
def test_a_runner_stops_if_the_stop_file_is_unreadable(tmp_path: Path, said: bytes) -> None:
    (tmp_path / STOP).write_bytes(said)
    reporter = Reporter(Spool(tmp_path))
    reporter.limits = LimitCounter({}, tmp_path / STOP, lambda: False)
    with pytest.raises(KeyboardInterrupt):
        reporter.write("model_started", model="m", agent="a")
    assert [(line["kind"], line["data"]) for line in read_events(tmp_path, 0)[0]] == [("limit", {})]


def test_a_runner_continues_below_its_limit(tmp_path: Path) -> None:
    reporter = Reporter(Spool(tmp_path))
    reporter.limits = LimitCounter({}, tmp_path / STOP, lambda: False)
    reporter.write("model_started", model="m", agent="a")
    assert [line["kind"] for line in read_events(tmp_path, 0)[0]] == ["model_started"]

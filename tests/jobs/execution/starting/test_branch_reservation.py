"""A branch is reserved for one job, across threads and processes."""

import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest
from django.db import IntegrityError, connection

from tests.environments import environment_with
from tests.jobs.conftest import ROOT
from viewer.launching.refusals import LaunchRefused
from viewer.launching.start import BranchTaken, start_job
from viewer.launching.sweep import Planned, start_group
from viewer.models import Checkpoint, Job, Project, Sweep

ROUNDS, AT_ONCE = 30, 8


def started(checkpoint: Checkpoint, kind: Job.Kind, branch: str) -> str:
    """Start a job as its own form does and return its outcome."""
    try:
        start_job(checkpoint, checkpoint.location.project, kind, branch, {}, [])
    except BranchTaken:
        return "taken"
    finally:
        connection.close()
    return "started"


@pytest.mark.parametrize("kind", [Job.Kind.FORK, Job.Kind.RESUME])
def test_only_one_of_many_threads_reserves_the_branch(checkpoint: Checkpoint, kind: Job.Kind) -> None:
    with ThreadPoolExecutor(AT_ONCE) as people:
        for number in range(ROUNDS):
            branch = f"what-if-{number}" if kind == Job.Kind.FORK else "main"
            came = Counter(people.map(lambda _, b=branch: started(checkpoint, kind, b), range(AT_ONCE)))
            assert came == {"started": 1, "taken": AT_ONCE - 1}
            Job.objects.filter(branch="main").update(status=Job.Status.FAILED)


@pytest.mark.parametrize("kind", ["fork", "resume"])
def test_only_one_of_several_processes_reserves_the_branch(
    checkpoint: Checkpoint, kind: str, tmp_path: Path
) -> None:
    environment = environment_with()
    command = [sys.executable, "-m", "tests.jobs.starts_forks", kind, str(ROUNDS), str(tmp_path)]
    processes = [subprocess.Popen(command, cwd=ROOT, env=environment) for _ in range(3)]
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    branches = [f"what-if-{number}" for number in range(ROUNDS)] if kind == "fork" else ["main"]
    assert sorted(Job.objects.values_list("branch", flat=True)) == sorted(branches)


def test_a_sweep_and_a_fork_never_share_a_branch(checkpoint: Checkpoint) -> None:
    project = checkpoint.location.project
    assert project

    def vary(number: int) -> str:
        planned = [
            Planned(word, f"tone-{number}/{word}", {}, [], checkpoint, project) for word in ("dry", "warm")
        ]
        try:
            start_group("tone", planned, uuid4())
        except LaunchRefused:
            return "taken"
        finally:
            connection.close()
        return "started"

    with ThreadPoolExecutor(4) as people:
        for number in range(ROUNDS):
            groups = [people.submit(vary, number) for _ in range(2)]
            fork = people.submit(started, checkpoint, Job.Kind.FORK, f"tone-{number}/warm")
            came = [one.result() for one in (*groups, fork)]
            assert came.count("started") == 1
            # A sweep starts completely or not at all.
            jobs = Job.objects.filter(branch__startswith=f"tone-{number}/")
            assert jobs.count() == (1 if came[2] == "started" else 2)
    assert Sweep.objects.count() * 2 + Job.objects.filter(sweep=None).count() == Job.objects.count()


def test_the_branches_of_a_sweep_are_distinct(checkpoint: Checkpoint) -> None:
    planned = [Planned("a", "b", {}, [], checkpoint, checkpoint.location.project)] * 2
    with pytest.raises(LaunchRefused, match="branch"):
        start_group("tone", planned, uuid4())
    assert not Job.objects.exists() and not Sweep.objects.exists()


@pytest.mark.parametrize("status", ["queued", "starting", "running"])
def test_only_an_unfinished_job_reserves_its_branch(checkpoint: Checkpoint, status: str) -> None:
    assert started(checkpoint, Job.Kind.FORK, "what-if") == "started"
    Job.objects.update(status=status)
    assert started(checkpoint, Job.Kind.FORK, "what-if") == "taken"
    Job.objects.get().end(Job.Status.FAILED)
    assert started(checkpoint, Job.Kind.FORK, "what-if") == "started"
    assert Job.objects.exclude(status="failed").get().request_cancel()
    assert started(checkpoint, Job.Kind.FORK, "what-if") == "started"


def test_an_existing_branch_is_refused_for_forks_and_allowed_for_a_resume(checkpoint: Checkpoint) -> None:
    assert started(checkpoint, Job.Kind.FORK, "main") == "taken"
    assert started(checkpoint, Job.Kind.RESUME, "main") == "started"
    assert started(checkpoint, Job.Kind.RESUME, "main") == "taken"


def test_a_resume_is_refused_while_the_new_run_writes(checkpoint: Checkpoint) -> None:
    new = Job.objects.create(
        kind="run", location=checkpoint.location, run=checkpoint.run, branch="main", status="running"
    )
    assert started(checkpoint, Job.Kind.RESUME, "main") == "taken"
    new.end(Job.Status.SUCCEEDED)
    assert started(checkpoint, Job.Kind.RESUME, "main") == "started"


def test_the_database_refuses_a_second_row(checkpoint: Checkpoint, project: Project) -> None:
    for kind in ("fork", "resume"):
        values = {"kind": kind, "location": checkpoint.location, "run": checkpoint.run, "branch": "x"}
        Job.objects.create(**values)
        with pytest.raises(IntegrityError):
            Job.objects.create(**values)

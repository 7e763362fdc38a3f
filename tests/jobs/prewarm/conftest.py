"""Prewarmed processes with tiny engines, and jobs that run in them."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from tests.jobs.conftest import MakeJob, finished
from tests.waiting import wait_until
from viewer.host.jobs import prewarm
from viewer.host.jobs.prewarm import PrewarmPool
from viewer.models import Project

Warm = Callable[..., PrewarmPool]


@pytest.fixture(autouse=True)
def nothing_from_before(transactional_db: None) -> None:
    """Start without requests or processes of other tests."""
    shutil.rmtree(prewarm.folder())


@pytest.fixture
def prewarmed(settings: Settings, project: Project) -> Iterator[Warm]:
    """Return a function that prewarms a process for the project with this runner. It is ended at the end."""
    settings.PREWARM, settings.RUNNER_MODULES = True, {"crewai": "tiny_engine"}
    settings.PREWARM_PROCESSES, settings.PREWARM_IDLE_SECONDS = 2, 600
    state = PrewarmPool()
    begun: list[subprocess.Popen[bytes]] = []

    def start(one: Project | None = None) -> PrewarmPool:
        prewarm.start(state, one or project)
        for waiting in state.processes.values():
            begun.append(waiting.process)
            wait_until(partial(is_waiting, waiting))
        return state

    yield start
    prewarm.end_all(state)
    for process in begun:
        process.kill()
        process.wait()


def is_waiting(waiting: prewarm.PrewarmedProcess) -> bool:
    """Return whether the process waits, or never will."""
    return waiting.log.read_text() != "" or waiting.process.poll() is not None


def only(state: PrewarmPool) -> "subprocess.Popen[bytes]":
    (one,) = state.processes.values()
    return one.process


def reported_by(make_job: MakeJob, project: Project) -> dict[str, Any]:
    """Return the environment that the runner reports, without what differs from job to job."""
    job = finished(make_job("shows_environment.py"))
    assert job.status == "succeeded", job.log_end
    text = (Path(project.folder) / "reported.json").read_text()
    return dict(json.loads(text.replace(str(job.pk), "JOB")))


def is_warm(make_job: MakeJob, project: Project) -> bool:
    return bool(reported_by(make_job, project)["is_warm"])

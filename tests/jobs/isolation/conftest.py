"""Projects whose runs are isolated, with what this machine really has."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.jobs.conftest import MakeJob, finished
from viewer.host.jobs.sandbox import folders_to_read, folders_to_write, launchers
from viewer.models import Job, Project
from viewer.records.isolation import IsolationRefused, change_isolation, isolation_of

# CI has both: as a container or a machine of its own, with a kernel of today.
WALLS = [
    "landlock",
    "bubblewrap",
]


@pytest.fixture(params=WALLS)
def launcher(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    assert launchers()[name] == "", f"{name} does not work here; scripts/system-packages has it"
    return name


def isolate(project: Project, **isolation: object) -> None:
    """Save how the project's runs are isolated, as a person does. What makes no sense is only stored."""
    try:
        wanted = isolation_of(isolation)
    except IsolationRefused:
        project.change_isolation(isolation)
    else:
        change_isolation(project, wanted)


def noted(project: Project) -> Project:
    """Note what is open to runs of a project that is in no database. Return it."""
    isolation = isolation_of(project.isolation)
    found = folders_to_read(project, isolation.read) + folders_to_write(project, isolation.write)
    project.isolation["trusted"] = found
    return project


def ended(make_job: MakeJob, project: Project, child: str, **isolation: object) -> Job:
    """Run a tiny runner, isolated so. Return the job after its end."""
    isolate(project, **isolation)
    return finished(make_job(child))


def result_of(job: Job) -> Any:
    """What a run that ended as it should has returned."""
    assert job.status == "succeeded", f"{job.status}: {job.error}\n{job.log_end}"
    return json.loads(job.result)


@contextmanager
def listener(family: int = socket.AF_INET, address: object = ("127.0.0.1", 0)) -> Iterator[socket.socket]:
    """A socket that accepts connections, as another program of the user has."""
    with socket.socket(family) as server:
        server.bind(address)  # type: ignore[arg-type]
        server.listen()
        yield server

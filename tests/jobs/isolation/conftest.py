"""Projects whose runs are isolated, with what this machine really has."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.jobs.conftest import MakeJob, finished
from viewer.host.jobs.sandbox import probing
from viewer.models import Job, Project

# CI has both: as a container or a machine of its own, with a kernel of today.
WALLS = [
    "landlock",
    "bubblewrap",
]


@pytest.fixture(params=WALLS)
def launcher(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    assert probing.launchers()[name] == "", f"{name} does not work here; scripts/system-packages has it"
    return name


def ended(make_job: MakeJob, project: Project, child: str, **isolation: object) -> Job:
    """Run a tiny runner, isolated so. Return the job after its end."""
    project.change_isolation(dict(isolation))
    return finished(make_job(child))


@contextmanager
def listener(family: int = socket.AF_INET, address: object = ("127.0.0.1", 0)) -> Iterator[socket.socket]:
    """A socket that accepts connections, as another program of the user has."""
    with socket.socket(family) as server:
        server.bind(address)  # type: ignore[arg-type]
        server.listen()
        yield server

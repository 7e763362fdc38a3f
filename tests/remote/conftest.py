"""``forkline --server`` in a process of its own, with another data folder than the server's."""

import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.api.conftest import with_role
from tests.environments import environment_with
from tests.jobs.conftest import StartWorker, start_worker
from tests.prewarmed_programs import COMMAND
from tests.serving.conftest import WebServer, own_server
from tests.views.forking import CREW, stored
from viewer.models import Checkpoint, Level, Location, Project
from viewer.records.accounts import make_token

__all__ = ["StartWorker", "own_server", "start_worker"]
# Seconds for one command: a busy machine may need long to start it.
PATIENCE = 240


@dataclass(frozen=True)
class Forkline:
    """The command of a person on another machine, with a token."""

    address: str
    token: str
    folder: Path

    def begin(
        self, *arguments: str, terminal: int | None = None, **variables: str
    ) -> "subprocess.Popen[str]":
        """Start a command that is sent to the server, with a terminal for what it asks if one is given."""
        given = {"FORKLINE_TOKEN": self.token, **variables}
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, "--server", self.address, *arguments],
            cwd=self.folder,
            env=environment_with(self.folder / "data", **given),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if terminal is None else terminal,
            stdin=subprocess.DEVNULL if terminal is None else terminal,
            text=True,
        )

    def run(self, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Return a command after its end."""
        process = self.begin(*arguments, terminal=None, **variables)
        printed, said = process.communicate(timeout=PATIENCE)
        return subprocess.CompletedProcess(arguments, process.returncode, printed, said)

    def at(self, address: str) -> "Forkline":
        """Return the same with another address."""
        return replace(self, address=address)


@pytest.fixture
def location(transactional_db: None, tmp_path: Path) -> Location:
    """Return a location in a confirmed project with this interpreter."""
    folder = tmp_path / "project"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "crew.py").write_text("from crewai import Crew\ndef build() -> Crew: ...\n")
    project = Project(folder=str(folder))
    project.change(interpreter=sys.executable, environment_file="", entry_points=["crew:build"])
    project.confirm(None)
    return Location.objects.create(
        path=str(folder / "checkpoints"), store_kind=Location.StoreKind.JSON, project=project
    )


@pytest.fixture
def checkpoint(location: Location) -> Checkpoint:
    return stored(location, CREW)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return the folder in which the person works."""
    (folder := tmp_path / "home").mkdir()
    return folder


@pytest.fixture
def forkline(own_server: WebServer, home: Path, checkpoint: Checkpoint) -> Forkline:
    """Return the command of an operator."""
    _token, text = make_token(with_role("olga", Level.OPERATOR), "ci", Level.OPERATOR)
    return Forkline(f"http://127.0.0.1:{own_server.port}", text, home)

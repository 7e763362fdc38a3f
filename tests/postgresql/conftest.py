"""A PostgreSQL server for the rows of Forkline itself, whatever database the tests use."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from tests.environments import environment_with
from tests.langgraph.postgresql.server import FORKLINE, OWNER, PORT, Server, running

ROOT = Path(__file__).resolve().parents[2]
_numbers = count()


@dataclass(frozen=True, slots=True)
class Installation:
    """A data folder, and an empty database for its rows."""

    server: Server
    name: str
    data_folder: Path

    @property
    def url(self) -> str:
        return f"postgresql://{OWNER}@/{self.name}?host={self.server.folder}&port={PORT}"

    def environment(self, **variables: str) -> dict[str, str]:
        return environment_with(self.data_folder, **{"DATABASE_URL": self.url, **variables})

    def manage(self, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Run a command with the rows in this database."""
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=self.environment(**variables), capture_output=True, text=True, check=False
        )

    def python(self, code: str, **variables: str) -> str:
        """Run code that uses the rows on the only host. Return what it printed."""
        begin = "import django; django.setup(); from viewer.host import worker"
        command = [sys.executable, "-c", f"{begin}; worker.claim_unregistered()\n{code}"]
        ended = subprocess.run(
            command, cwd=ROOT, env=self.environment(**variables), capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def alter(self, statement: str) -> None:
        """Execute a statement about the server as its owner."""
        with self.server.connected("postgres") as connection:
            connection.execute(statement)


@pytest.fixture(scope="session")
def rows_server(server_data: Path) -> Iterator[Server]:
    """A server that runs until the tests end."""
    with running("forkline-rows-", server_data) as started:
        yield started


@pytest.fixture
def new_installation(rows_server: Server, tmp_path: Path) -> Callable[..., Installation]:
    """Return a function that creates a data folder and a database."""

    def make(options: str = "TEMPLATE template0") -> Installation:
        name = f"rows_{next(_numbers)}"
        with rows_server.connected("postgres") as connection:
            connection.execute(f"CREATE DATABASE {name} {options}")
        return Installation(rows_server, name, tmp_path / "data")

    return make


@pytest.fixture
def installation(new_installation: Callable[..., Installation]) -> Installation:
    """A data folder, and a database with all tables."""
    return new_installation(f"TEMPLATE {FORKLINE}")

"""Several machines that share a database of a real PostgreSQL: processes with different folders."""

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.environments import environment_with
from tests.jobs.conftest import ROOT
from tests.langgraph.postgresql.server import FORKLINE, OWNER, Server

IMPORTS = """
from viewer.host_requests import *
from viewer.models import *
from viewer.records.hosts import *
"""


@dataclass(slots=True)
class Machine:
    """A machine with its own folders, and a process that runs code there, as a web server does.

    ``root`` is its only allowed folder. If it has a ``worker``, it is a host. If it ``is_patient``, its code
    waits for other hosts until they answer, because they share the processor.
    """

    server: Server
    database: str
    folder: Path
    worker: "subprocess.Popen[bytes] | None" = None
    # Such as another address of the database.
    variables: dict[str, str] = field(default_factory=dict)
    # The program and its arguments that start the worker, such as one that mounts its disk.
    prefix: list[str] = field(default_factory=list)
    pools: tuple[str, ...] = ()
    is_patient: bool = True
    _process: "subprocess.Popen[str] | None" = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        # Where the project of its locations is, whose runners wait for this file.
        (self.root / "go").touch()

    def another_process(self, *, is_patient: bool = True) -> "Machine":
        """Return the same machine with another process that runs code."""
        variables = self.variables
        return Machine(self.server, self.database, self.folder, variables=variables, is_patient=is_patient)

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def environment(self) -> dict[str, str]:
        own = {
            "DJANGO_SETTINGS_MODULE": "tests.jobs.worker_settings",
            "FAKE_RUNNER": "succeeds_after_go.py",
            "CHECKPOINT_ROOTS": str(self.root),
            "DATABASE_URL": self.server.connection(self.database, OWNER),
            "SECRET_KEY": "one for all web servers, which nobody outside of the tests guesses",
        }
        return environment_with(self.folder / "data", **{**own, **self.variables})

    def start_worker(self) -> None:
        """Start the worker, which registers the machine as a host."""
        command = [*self.prefix, sys.executable, "manage.py", "worker", "--host", self.name]
        command += [f"--pool={name}" for name in self.pools]
        self.worker = subprocess.Popen(command, cwd=ROOT, env=self.environment)

    def stop_worker(self) -> None:
        """Stop the worker, which reports that its host is away."""
        assert self.worker
        self.worker.terminate()
        self.worker.wait()

    def end(self) -> None:
        """Kill the processes."""
        for process in (self.worker, self._process):
            if process is not None:
                process.kill()
                process.wait()

    def manage(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command on the machine."""
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(
            command,
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def run(self, code: str) -> Any:
        """Return what the code assigns to ``result``."""
        reply = self._answer(code)
        assert "refused" not in reply, reply
        return reply["result"]

    def refused(self, code: str) -> tuple[str, str]:
        """Return the name of the refusal that the code raises, and its text."""
        reply = self._answer(code)
        return reply["refused"], reply["text"]

    def _answer(self, code: str) -> Any:
        if self._process is None:
            command, pipe = [sys.executable, "-m", "tests.hosts.machine"], subprocess.PIPE
            command += ["patient"] if self.is_patient else []
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=self.environment, stdin=pipe, stdout=pipe, text=True
            )
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(IMPORTS + code) + "\n")
        self._process.stdin.flush()
        if not (line := self._process.stdout.readline()):
            # The next code runs in a new process.
            status, self._process = self._process.wait(), None
            raise AssertionError(f"the process of {self.name} exited with {status} while it ran {code}")
        reply = json.loads(line)
        assert "failed" not in reply, reply["failed"]
        return reply


def created_database(server: Server, name: str) -> None:
    """Create a database with Forkline's tables."""
    with server.connected("postgres") as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {FORKLINE}")

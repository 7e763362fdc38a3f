"""Several machines that share a database of a real PostgreSQL: processes with different folders."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.environments import environment_with
from tests.jobs.conftest import ROOT
from tests.langgraph.postgresql.server import OWNER, PORT, Server

IMPORTS = """
from viewer.host.registration import heartbeats, register
from viewer.host_requests import *
from viewer.models import *
from viewer.records.hosts import *
"""
# What a worker does, as far as other machines notice.
HOST = """
from viewer.host.remote import answering
host = register({name!r}, 4)
stack.enter_context(heartbeats(host, lambda: None))
stack.enter_context(answering(host))
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """A process with a data folder of its own. ``root`` is its only allowed folder."""

    name: str
    root: Path
    process: "subprocess.Popen[str]"

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
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(IMPORTS + code) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def environment_of(server: Server, database: str, folder: Path) -> dict[str, str]:
    """Return the environment of a machine with its data and its allowed folder in this folder."""
    data, root = folder / "data", folder / "root"
    data.mkdir(parents=True, exist_ok=True)
    root.mkdir(exist_ok=True)
    return environment_with(
        data,
        CHECKPOINT_ROOTS=str(root),
        DATABASE_URL=f"host={server.folder} port={PORT} user={OWNER} dbname={database}",
    )


def created_database(server: Server, name: str, folder: Path) -> None:
    """Create a database with all tables."""
    with server.connected("postgres") as connection:
        connection.execute(f"CREATE DATABASE {name}")
    environment = environment_of(server, name, folder)
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=environment, check=True)


def started(server: Server, database: str, folder: Path, name: str, *, is_host: bool) -> Machine:
    """Start a machine, which is a host or a web server."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.hosts.machine"],
        cwd=ROOT,
        env=environment_of(server, database, folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    machine = Machine(name, folder / "root", process)
    if is_host:
        machine.run(HOST.format(name=name))
    return machine

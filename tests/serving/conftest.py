"""Starts the web server in its own process."""

import http.client
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from scripts.served_demo import free_port
from tests.environments import environment_with
from tests.jobs.conftest import ROOT
from tests.waiting import wait_until

SERVER = [sys.executable, "-m", "checkpoint_site.server"]


@dataclass(frozen=True)
class WebServer:
    """A running web server."""

    port: int
    process: "subprocess.Popen[bytes]"

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def get(self, path: str, **headers: str) -> http.client.HTTPResponse:
        connection = self.connection()
        connection.request("GET", path, headers={"Host": f"127.0.0.1:{self.port}", **headers})
        return connection.getresponse()

    def database_descriptors(self) -> int:
        return len([file for file in psutil.Process(self.process.pid).open_files() if "sqlite3" in file.path])


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def started_server(command: Sequence[str] = SERVER, log: Path | None = None) -> Iterator[WebServer]:
    """Return a web server that answers. It is killed at the end. ``log`` is what it writes to."""
    port = free_port()
    with open(log, "wb") if log else nullcontext() as written:
        process = subprocess.Popen(command, cwd=ROOT, env=environment_with(PORT=str(port)), stderr=written)
    try:
        wait_until(lambda: answers(port))
        yield WebServer(port, process)
    finally:
        process.kill()
        process.wait()


def server_with_limits(**seconds: float) -> list[str]:
    """Return a command that starts the web server with these constants of ``server``."""
    lines = ["from checkpoint_site import server"]
    lines += [f"server.{name} = {value}" for name, value in seconds.items()]
    return [sys.executable, "-c", "\n".join([*lines, "server.main()"])]


@pytest.fixture(scope="module")
def server(django_db_setup: None) -> Iterator[WebServer]:
    """Return a web server for the tests that store nothing and do not stop it."""
    with started_server() as started:
        yield started


@pytest.fixture
def own_server(transactional_db: None) -> Iterator[WebServer]:
    """Return a web server for one test."""
    with started_server() as started:
        yield started

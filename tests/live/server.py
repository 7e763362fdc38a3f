"""The web server as a program, for tests in a browser."""

import socket
import subprocess
import sys

from scripts.served_demo import free_port
from tests.environments import environment_with
from tests.jobs.conftest import ROOT


class Server:
    """A web server on its own port that can be stopped and started again."""

    def __init__(self, **variables: str) -> None:
        self.port = free_port()
        self.variables = variables
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environment = environment_with(None, PORT=str(self.port), **self.variables)
        command = [sys.executable, "-m", "checkpoint_site.server"]
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment)

    def answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

"""A PostgreSQL server of the cluster, which can be killed and started again."""

import os
import pwd
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from scripts.served_demo import free_port
from tests.langgraph.postgresql.server import installed_program

USER, NAME = "forkline", "forkline"
OPTIONS = {"listen_addresses": "127.0.0.1", "shared_buffers": "64MB", "max_connections": "300"}
STOP_SECONDS = 30


class Server:
    """A server on a port of this machine, and on a socket in this folder, whose path must be short."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data, self.port = folder, folder / "data", free_port()
        # A server refuses to run as root.
        self._account = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        if self._account:
            os.chown(folder, self._account.pw_uid, self._account.pw_gid)
        self._run("initdb", "-D", str(self.data), "-U", USER, "--auth=trust", "--encoding=UTF8", "--locale=C")
        self.start()
        self._run("createdb", "-h", str(folder), "-p", str(self.port), "-U", USER, NAME)

    @property
    def address(self) -> str:
        """The connection string of the database."""
        return f"host={self.folder} port={self.port} dbname={NAME} user={USER}"

    def address_at(self, port: int) -> str:
        """The same through another port of this machine."""
        return f"host=127.0.0.1 port={port} dbname={NAME} user={USER}"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        values = {**OPTIONS, "unix_socket_directories": str(self.folder), "port": str(self.port)}
        options = " ".join(f"-c {name}={value}" for name, value in values.items())
        log = str(self.folder / "log")
        self._run("pg_ctl", "start", "-w", "-D", str(self.data), "-l", log, "-o", options)

    def kill(self) -> None:
        """Kill the server as a crash does, and wait until its processes have ended."""
        postmaster = psutil.Process(int((self.data / "postmaster.pid").read_text().split()[0]))
        others = postmaster.children()
        postmaster.kill()
        # They notice it, and release the shared memory.
        psutil.wait_procs([postmaster, *others], timeout=STOP_SECONDS)
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def stop(self) -> None:
        """Stop the server."""
        self._run("pg_ctl", "stop", "-m", "immediate", "-D", str(self.data))

    def _run(self, program: str, *arguments: str) -> None:
        user: dict[str, Any] = {}
        if self._account:
            user = {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}
        command = [installed_program(program), *arguments]
        subprocess.run(command, cwd=self.folder, check=True, stdout=subprocess.DEVNULL, **user)


@contextmanager
def used_server() -> Iterator[Server]:
    """Yield a temporary server that has Forkline's rows, in this process and those that it starts."""
    with tempfile.TemporaryDirectory(prefix="forkline-pg-") as folder:
        # The server's account reads it.
        Path(folder).chmod(0o755)
        (Path(folder) / "pg").mkdir()
        server = Server(Path(folder) / "pg")
        os.environ["DATABASE_URL"] = server.address
        # Of paths that rows of a shared database name, hosts open those in allowed folders only.
        os.environ["CHECKPOINT_ROOTS"] = tempfile.gettempdir()
        try:
            yield server
        finally:
            server.stop()

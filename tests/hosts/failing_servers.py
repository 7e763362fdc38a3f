"""PostgreSQL servers of the tests that end, are replaced, or cannot be reached."""

import os
import select
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from scripts.served_demo import free_port
from tests.langgraph.postgresql.server import FORKLINE, OWNER, create_data, give_to_server, run_program
from tests.waiting import wait_until
from viewer.cli.supervision import is_taken

NAME = FORKLINE
OPTIONS = {"fsync": "off", "shared_buffers": "16MB", "max_connections": "100", "unix_socket_directories": ""}


class FailingServer:
    """A server on a port of 127.0.0.1 that can be killed, started and copied."""

    def __init__(self, data: "Path | FailingServer", port: int = 0) -> None:
        """Start with a copy of this data, or as the standby of a server."""
        # Where another account may read, because the server refuses to run as root.
        self.folder, self.port = Path(tempfile.mkdtemp(prefix="forkline-pg-")), port or free_port()
        if isinstance(data, Path):
            create_data(self.folder, data)
        else:
            give_to_server(self.folder)
            source = f"host=127.0.0.1 port={data.port} user={OWNER}"
            self.run("pg_basebackup", "-d", source, "--checkpoint=fast", "--write-recovery-conf", "--no-sync")
        self.start()

    def run(self, program: str, *arguments: str) -> None:
        run_program(self.folder, program, *arguments)

    def start(self) -> None:
        values = {**OPTIONS, "port": str(self.port), "listen_addresses": "127.0.0.1"}
        options = " ".join(f"-c {name}={value or repr(value)}" for name, value in values.items())
        self.run("pg_ctl", "start", "-w", "-l", str(self.folder / "log"), "-o", options)

    def kill(self) -> None:
        """End the server without a checkpoint, as a crash does."""
        self.run("pg_ctl", "stop", "-m", "immediate")

    def end(self) -> None:
        """Stop the server if it runs, and delete it."""
        with suppress(subprocess.CalledProcessError):
            self.kill()
        shutil.rmtree(self.folder)

    def promote(self) -> None:
        """Have a standby accept changes."""
        self.run("pg_ctl", "promote", "-w")

    def execute(self, statement: str, database: str = "postgres", role: str = OWNER) -> Any:
        """Return the rows of a statement."""
        address = f"host=127.0.0.1 port={self.port} user={role} dbname={database}"
        with psycopg.connect(address, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else None


class Cut:
    """A TCP proxy on ``port`` that forwards to another port, until it is closed."""

    def __init__(self, target: int) -> None:
        self.target, self.port = target, free_port()
        self._open: list[socket.socket] = []
        self.open()

    def open(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self._listening,), daemon=True).start()

    def close(self) -> None:
        """Refuse connections, and end those that are open, as a network that has failed."""
        for one in (self._listening, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._open.clear()

    def __enter__(self) -> "Cut":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _address = listening.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self.target))
                except OSError:
                    # The server is down. The next connection may reach it.
                    client.close()
                    continue
                self._open += [client, server]
                if listening.fileno() == -1:
                    # The proxy was closed meanwhile.
                    client.close()
                    server.close()
                    return
                threading.Thread(target=_forward, args=(client, server), daemon=True).start()


def _forward(*ends: socket.socket) -> None:
    other = dict(zip(ends, reversed(ends), strict=True))
    try:
        with suppress(OSError, ValueError):
            while True:
                for one in select.select(ends, [], [])[0]:
                    data = one.recv(65536)
                    if not data:
                        return
                    other[one].sendall(data)
    finally:
        for one in ends:
            one.close()


@contextmanager
def pgbouncer(target: int) -> Iterator[int]:
    """Start PgBouncer in transaction mode in front of a server, and yield its port."""
    port = free_port()
    program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
    folder = Path(tempfile.mkdtemp(prefix="forkline-pgbouncer-"))
    folder.chmod(0o777)
    file = folder / "pgbouncer.ini"
    file.write_text(f"""
[databases]
* = host=127.0.0.1 port={target} user={OWNER}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 20
max_client_conn = 200
logfile = {folder}/log
""")
    as_other = ["--user", "nobody"] if os.geteuid() == 0 else []
    started = subprocess.Popen([program, "--quiet", *as_other, file], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: is_taken("127.0.0.1", port))
        assert started.poll() is None, (folder / "log").read_text()
        yield port
    finally:
        started.terminate()
        started.wait()
        shutil.rmtree(folder)

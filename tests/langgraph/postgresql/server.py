"""A PostgreSQL server of the tests: its data, socket and log are in one temporary folder."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

RECORDED = Path(__file__).resolve().parents[2] / "recorded_stores" / "langgraph"
OWNER, READER, WRITER = "lg", "forkline_reader", "forkline_writer"
# Fake, and looked for wherever it must not be.
PASSWORD = "reader-word-5b1f9c"
# The database with Forkline's tables, without rows.
FORKLINE = "forkline"
# It runs on a socket only, so the number names no port of this machine.
PORT = 5432
_ACCESS = f"""
local all {OWNER} trust
local all all scram-sha-256
host all all 127.0.0.1/32 trust
host replication all 127.0.0.1/32 trust
"""
_ACCOUNT = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
_OPTIONS = {"listen_addresses": "''", "fsync": "off", "shared_buffers": "16MB", "max_connections": "100"}


@dataclass(frozen=True, slots=True)
class Server:
    """A running server. ``folder`` has its socket."""

    folder: Path

    def connection(self, database: str, role: str = READER) -> str:
        """The connection string of a role, without a password."""
        return f"host={self.folder} port={PORT} dbname={database} user={role}"

    def connected(self, database: str) -> psycopg.Connection[Any]:
        """A connection of the tables' owner."""
        return psycopg.connect(self.connection(database, OWNER), autocommit=True)

    def restore(self, database: str) -> None:
        """Create a database with the recorded tables, on which the reader has SELECT and nothing else."""
        with self.connected("postgres") as connection:
            connection.execute(f"CREATE DATABASE {database}")
        fill_with_threads(self.connection(database, OWNER))
        with self.connected(database) as connection:
            tables = "checkpoints, checkpoint_blobs, checkpoint_writes"
            connection.execute(f"GRANT SELECT ON {tables} TO {READER}")


def fill_with_threads(connection: str) -> None:
    """Create the recorded tables in an empty database."""
    lines = (RECORDED / "lg12_postgres.sql").read_text().splitlines(keepends=True)
    # Older clients do not know these commands.
    dump = "".join(line for line in lines if not line.startswith(("\\restrict", "\\unrestrict")))
    command = [installed_program("psql"), "-q", "-v", "ON_ERROR_STOP=1", "-d", connection]
    subprocess.run(command, input=dump, text=True, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def running(prefix: str, data: Path | None = None, kept: Path | None = None) -> Iterator[Server]:
    """Start a server in a temporary folder, and stop it. The path of a socket must be short.

    It begins with a copy of ``data``, the data that another one left in the folder ``kept``.
    """
    with tempfile.TemporaryDirectory(prefix=prefix) as name:
        folder = Path(name)
        folder.chmod(0o755)
        create_data(folder, data)
        settings = " ".join(f"-c {option}={value}" for option, value in _OPTIONS.items())
        options = f"{settings} -c unix_socket_directories={folder} -c port={PORT}"
        run_program(folder, "pg_ctl", "start", "-w", "-l", str(folder / "log"), "-o", options)
        try:
            server = Server(folder)
            if data is None:
                with server.connected("postgres") as connection:
                    for role in (READER, WRITER):
                        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")
            yield server
        finally:
            run_program(folder, "pg_ctl", "stop", "-m", "fast" if kept else "immediate")
        if kept:
            subprocess.run(["cp", "-a", folder / "data", kept], check=True)


def create_data(folder: Path, data: Path | None) -> None:
    """Create the data of a server, or copy it, which takes a quarter of the time."""
    give_to_server(folder)
    if data:
        subprocess.run(["cp", "-a", data / "data", folder], check=True)
        return
    run_program(folder, "initdb", "-U", OWNER, "--no-sync", "--encoding=UTF8", "--locale=C")
    (folder / "data/pg_hba.conf").write_text(_ACCESS)


def give_to_server(folder: Path) -> None:
    """Let the server's account, which differs where this runs as root, write to a folder."""
    if _ACCOUNT:
        os.chown(folder, _ACCOUNT.pw_uid, _ACCOUNT.pw_gid)


def run_program(folder: Path, program: str, *arguments: str) -> None:
    """Run a program of PostgreSQL on the data in a folder. A server refuses to run as root."""
    user: dict[str, Any] = {}
    if _ACCOUNT:
        user = {"user": _ACCOUNT.pw_uid, "group": _ACCOUNT.pw_gid, "extra_groups": []}
    command = [installed_program(program), "-D", str(folder / "data"), *arguments]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, **user)


def installed_program(name: str) -> str:
    """Return the newest of the installed versions of a program."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[4]))
    program = str(found[-1]) if found else shutil.which(name)
    assert program, f"{name} is not there: run `scripts/system-packages postgresql`"
    return program

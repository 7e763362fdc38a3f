"""A server that stops answering, or a policy that never ends: the command ends, and nothing is left."""

import os
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from psycopg import Connection

from tests.environments import environment_with
from tests.langgraph.postgresql.server import PASSWORD, Server
from tests.waiting import wait_until
from viewer.host.locations.importing import import_location
from viewer.models import Location

ROOT = Path(__file__).resolve().parents[3]
Added = Callable[[], Location]
# The limits of a statement and of a connection, with time for a busy machine.
MAX_SECONDS = 30


def message(kind: bytes, body: bytes = b"") -> bytes:
    """A message of the server's side of the protocol."""
    return kind + (len(body) + 4).to_bytes(4, "big") + body


STARTED = message(b"R", bytes(4)) + message(b"S", b"server_version\x0015.0\0")
READY = message(b"K", bytes(8)) + message(b"Z", b"I")
# What a server sends before it is silent: to a request for TLS, to the start of a session, to a statement.
STEPS: Mapping[str, tuple[bytes, bytes, bytes]] = {
    "accepted": (b"", b"", b""),
    "no TLS": (b"N", b"", b""),
    "TLS": (b"S", b"", b""),
    "password": (b"N", message(b"R", b"\0\0\0\3"), b""),
    "half a message": (b"N", message(b"R", bytes(4))[:3], b""),
    "session": (b"N", STARTED, b""),
    "ready": (b"N", STARTED + READY, b""),
    "half an answer": (b"N", STARTED + READY, message(b"1") + message(b"2")[:3]),
}


class Silent(socketserver.BaseRequestHandler):
    """Answers as the server's ``step`` says, then reads without an answer until the client has gone."""

    def handle(self) -> None:
        server: Any = self.server
        server.opened.add(self.request)
        answers = {b"\x04\xd2\x16\x2f": 0, b"\x04\xd2\x16\x30": 0, b"\0\3\0\0": 1}
        try:
            while data := self.request.recv(65_536):
                number = answers.get(data[4:8], 2)
                answer = b"N" if data[4:8] == b"\x04\xd2\x16\x30" and server.step[0] else server.step[number]
                for byte in answer:
                    self.request.sendall(bytes([byte]))
        except OSError:
            pass
        finally:
            server.opened.discard(self.request)


@contextmanager
def silent_server(step: tuple[bytes, bytes, bytes]) -> Iterator[Any]:
    """A server on a port of its own. ``opened`` are its connections."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Silent) as server:
        server.daemon_threads = True
        server.step, server.opened = step, set()  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def data_folder(empty_data_folder: Path, tmp_path: Path) -> None:
    """Give each command its own data folder."""
    shutil.copytree(empty_data_folder, tmp_path / "data")


def listing(tmp_path: Path, connection: str, seconds: int = 2) -> subprocess.Popen[str]:
    """Start a command that lists a database with this connection."""
    environment = environment_with(
        tmp_path / "data",
        POSTGRESQL_LOCATIONS=f"support={connection}",
        PGPASSWORD=PASSWORD,
        POSTGRESQL_STATEMENT_SECONDS=str(seconds),
    )
    command = [sys.executable, "manage.py", "checkpoints", "list", "postgresql:support"]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def readers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


@pytest.mark.parametrize("step", STEPS)
def test_a_command_ends_when_a_server_stops_answering(tmp_path: Path, step: str) -> None:
    with silent_server(STEPS[step]) as server:
        port = server.server_address[1]
        started = time.monotonic()
        # Zero, which means forever, is not accepted.
        limit = 0 if step == "accepted" else 2
        process = listing(tmp_path, f"host=127.0.0.1 port={port} dbname=x user=y connect_timeout={limit}")
        wait_until(lambda: bool(server.opened), 60)
        found = readers_of(process)
        output, _none = process.communicate(timeout=MAX_SECONDS + 30)
        assert process.returncode == 1 and "respond" in output, output
        assert time.monotonic() - started < MAX_SECONDS + 30
        wait_until(lambda: not server.opened and not any(one.is_running() for one in found))


@pytest.mark.parametrize(
    ("step", "number"),
    [
        ("accepted", signal.SIGTERM),
        ("TLS", signal.SIGTERM),
        ("session", signal.SIGKILL),
        ("half an answer", signal.SIGTERM),
    ],
)
def test_a_command_that_is_ended_leaves_no_reader(tmp_path: Path, step: str, number: int) -> None:
    with silent_server(STEPS[step]) as server:
        port = server.server_address[1]
        process = listing(tmp_path, f"host=127.0.0.1 port={port} dbname=x user=y")
        wait_until(lambda: bool(server.opened), 60)
        found = readers_of(process)
        assert found
        process.send_signal(number)
        process.communicate(timeout=60)
        wait_until(lambda: not server.opened and not any(one.is_running() for one in found))


# A policy runs as the role that reads. This one removes the limits of its session, then never ends.
POLICY = """
    CREATE FUNCTION slow() RETURNS boolean LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM set_config('statement_timeout', '0', false);
        PERFORM set_config('lock_timeout', '0', false);
        PERFORM set_config('idle_in_transaction_session_timeout', '0', false);
        IF {unchecked} THEN PERFORM set_config('client_connection_check_interval', '0', false); END IF;
        LOOP
            BEGIN
                IF current_setting('forkline.ended', true) IS NULL THEN
                    PERFORM set_config('forkline.ended', 'no', false);
                    RETURN true;
                END IF;
                PERFORM pg_sleep(600);
            EXCEPTION WHEN query_canceled THEN
                NULL;
            END;
        END LOOP;
    END $$;
    ALTER TABLE checkpoints ENABLE ROW LEVEL SECURITY;
    CREATE POLICY slow ON checkpoints FOR SELECT USING (slow());
"""


@pytest.fixture(params=[False, True], ids=["checks the client", "does not check the client"])
def slow(request: pytest.FixtureRequest, owner: Connection[Any], server: Server) -> Callable[[], list[Any]]:
    """Add the policy. Returns a function that returns the sessions of Forkline's role."""
    owner.execute(POLICY.format(unchecked=str(request.param).lower()))
    sessions = "SELECT pid, state FROM pg_stat_activity WHERE usename = 'forkline_reader'"
    return lambda: owner.execute(sessions).fetchall()


def test_a_policy_that_never_ends_is_ended_with_its_session(
    added: Added, slow: Callable[[], list[Any]], settings: Any, database: str
) -> None:
    settings.POSTGRESQL_STATEMENT_SECONDS = 1
    started = time.monotonic()
    with pytest.raises(AssertionError):
        added()
    summary = import_location(Location.objects.get())
    assert summary.read_error and summary.read_error.code == "postgresql.no_answer"
    assert time.monotonic() - started < MAX_SECONDS
    wait_until(lambda: not [state for _pid, state in slow() if state != "idle"], 10)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_command_that_is_ended_leaves_no_session(
    tmp_path: Path, slow: Callable[[], list[Any]], server: Server, database: str, number: int
) -> None:
    process = listing(tmp_path, server.connection(database), seconds=600)
    wait_until(lambda: any(state == "active" for _pid, state in slow()), 60)
    found = readers_of(process)
    os.kill(process.pid, number)
    process.communicate(timeout=60)
    wait_until(lambda: not slow() and not any(one.is_running() for one in found))


def test_a_reader_that_is_killed_leaves_no_session(
    tmp_path: Path, owner: Connection[Any], server: Server, database: str
) -> None:
    owner.execute(POLICY.format(unchecked="false").replace("'statement_timeout', '0'", "'a.b', '0'"))
    process = listing(tmp_path, server.connection(database), seconds=600)
    sessions = "SELECT 1 FROM pg_stat_activity WHERE usename = 'forkline_reader' AND state = 'active'"
    wait_until(lambda: bool(owner.execute(sessions).fetchall()), 60)
    for one in [*readers_of(process), psutil.Process(process.pid)]:
        one.kill()
    process.communicate(timeout=60)
    # Only the server is left to notice it.
    wait_until(lambda: not owner.execute(sessions).fetchall(), 15)


def test_a_reader_ends_with_its_parent_while_it_waits_for_nothing() -> None:
    ours, theirs = socket.socketpair()
    command = "import checkpoint_site; from viewer.host.reading.program import serve; serve(0)"
    reader = subprocess.Popen([sys.executable, "-c", command], cwd=ROOT, stdin=theirs.fileno())
    theirs.close()
    ours.close()
    assert reader.wait(timeout=30) == 0

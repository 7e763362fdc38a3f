"""Starts programs as forks of a process that has imported the engine, in a second instead of five."""

import fcntl
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

WAITING = Path(__file__).resolve().parent / "prewarmed_process.py"
# Set before imports, this gives every run a new process.
COLD = {"PYTHONPATH"}
MAX_SECONDS = 600
SOCKET = "warm.socket"
RUNNERS = Path(__file__).resolve().parents[2] / "viewer/runners"
# Referenced until this process ends, as others may use them.
_shared: list["subprocess.Popen[bytes]"] = []


class Copy:
    """A running program that can be waited for and signalled like a Popen."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.pid = self._read()
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the status, or None while it runs."""
        try:
            return self.wait(0.001)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Return the status once it has ended. Raise TimeoutExpired."""
        if self.returncode is None:
            self._connection.settimeout(timeout)
            try:
                self.returncode = self._read()
            except TimeoutError:
                raise subprocess.TimeoutExpired("a copy", timeout or 0) from None
            self._connection.close()
        return self.returncode

    def _read(self) -> int:
        """Return the next line: the process id or the status."""
        line = b""
        while not line.endswith(b"\n"):
            piece = self._connection.recv(1)
            assert piece, "the waiting process has gone"
            line += piece
        return int(line)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def launched(
    python: "Path | WarmPython",
    program: Path,
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    log: Path,
) -> "subprocess.Popen[bytes] | Copy":
    """Start the program in a session. Outside a prewarmed process if it has to be."""
    if isinstance(python, WarmPython) and not COLD & environment.keys():
        return python.start(program, arguments, folder, environment, log)
    interpreter = python.python if isinstance(python, WarmPython) else python
    with open(log, "wb") as file:
        return subprocess.Popen(
            [str(interpreter), str(program), *arguments],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )


class WarmPython:
    """An interpreter with a prewarmed process."""

    def __init__(self, python: Path, address: Path) -> None:
        self.python, self.address = python, address

    def start(
        self,
        program: Path,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        log: Path,
    ) -> Copy:
        """Run a program with this environment in this folder. Raise OSError."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self.address))
        asked = {
            "program": str(program),
            "arguments": list(arguments),
            "folder": str(folder),
            "environment": dict(environment),
            "log": str(log),
        }
        connection.sendall(json.dumps(asked).encode() + b"\n")
        return Copy(connection)


@contextmanager
def warm_python(
    python: Path, environment: Mapping[str, str], folder: Path, engine: str = "crewai"
) -> Iterator[WarmPython]:
    """Return a process in a temporary folder that has imported an engine, ended at the end."""
    waiting = _start_waiting(python, environment, folder, engine, os.getpid())
    try:
        yield WarmPython(python, folder / SOCKET)
    finally:
        waiting.kill()
        waiting.wait()


def shared_python(
    python: Path, environment: Mapping[str, str], folder: Path, engine: str, owner: int
) -> WarmPython:
    """Return the process of this folder that has imported an engine, and ends with the process ``owner``.

    The first that asks for it starts it.
    """
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / SOCKET).exists():
            # A run writes no bytecode: without it, each of them would compile the runner.
            subprocess.run([python, "-m", "compileall", "-q", RUNNERS], check=True)
            _shared.append(_start_waiting(python, environment, folder, engine, owner))
    return WarmPython(python, folder / SOCKET)


def _start_waiting(
    python: Path, environment: Mapping[str, str], folder: Path, engine: str, owner: int
) -> "subprocess.Popen[bytes]":
    """Return the process once it waits."""
    address, log = folder / SOCKET, folder / "warm.log"
    with open(log, "wb") as file:
        waiting = subprocess.Popen(
            [str(python), str(WAITING), str(address), engine, str(owner)],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    until = time.monotonic() + MAX_SECONDS
    while not address.exists():
        if waiting.poll() is not None or time.monotonic() > until:
            waiting.kill()
            waiting.wait()
            raise AssertionError(log.read_text()[-1000:])
        time.sleep(0.05)
    return waiting

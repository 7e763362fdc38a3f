"""Handles of a runner in the process that started it: a new process, or a fork of a prewarmed one."""

from __future__ import annotations

import json
import socket
import subprocess
from typing import Any, Protocol

MAX_MESSAGE_BYTES = 64 * 1024


class RunnerProcess(Protocol):
    """The part of ``subprocess.Popen`` that both kinds of runner have."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None:
        """The exit status (negative for a signal), or None while it runs. Raises LostRunner."""

    def wait(self, timeout: float | None = None) -> int:
        """The exit status. Waits for ``timeout`` seconds. Raises subprocess.TimeoutExpired, LostRunner."""


class LostRunner(Exception):
    """The exit status cannot be read: the runner's parent has exited. The runner may still run."""


class PrewarmedRunner:
    """A fork of a prewarmed process, which sends the fork's exit status over ``connection``."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._connection = connection

    def poll(self) -> int | None:
        return self._exit_status(0)

    def wait(self, timeout: float | None = None) -> int:
        status = self._exit_status(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return status

    def _exit_status(self, timeout: float | None) -> int | None:
        """Wait for the message with the exit status. Skips other messages, which may arrive late."""
        while self.returncode is None:
            try:
                message = receive(self._connection, timeout)
            except (BlockingIOError, TimeoutError):
                return None
            except OSError as error:
                raise LostRunner(str(error)) from error
            if not message:
                raise LostRunner(f"the parent of process {self.pid} has exited")
            if "status" in message:
                self.returncode = int(message["status"])
                self._connection.close()
        return self.returncode


def receive(connection: socket.socket, timeout: float | None) -> dict[str, Any]:
    """One message, empty if the connection is closed. Raises OSError, such as TimeoutError."""
    connection.settimeout(timeout)
    data = connection.recv(MAX_MESSAGE_BYTES)
    return dict(json.loads(data)) if data else {}

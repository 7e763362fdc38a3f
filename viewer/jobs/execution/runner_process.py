"""A job's process, as its starter sees it: started cold, or forked from one that waited."""

from __future__ import annotations

import json
import socket
import subprocess
from typing import Any, Protocol

MOST_MESSAGE_BYTES = 64 * 1024


class RunnerProcess(Protocol):
    """What ``subprocess.Popen`` has of these holds for both."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None:
        """Its exit status (negative: the signal), or None while it runs. Raises Lost."""

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, waited for so many seconds. Raises subprocess.TimeoutExpired, or Lost."""


class LostRunner(Exception):
    """The process that alone would have learned the exit status is gone. The child itself may run on."""


class PrewarmedRunner:
    """A child that was forked from a waiting process, which tells over ``connection`` how it ends."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._connection = connection

    def poll(self) -> int | None:
        return self._told(0)

    def wait(self, timeout: float | None = None) -> int:
        status = self._told(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return status

    def _told(self, timeout: float | None) -> int | None:
        """Wait for the one message that matters: others may come late."""
        while self.returncode is None:
            try:
                message = receive(self._connection, timeout)
            except (BlockingIOError, TimeoutError):
                return None
            except OSError as error:
                raise LostRunner(str(error)) from error
            if not message:
                raise LostRunner(f"nobody tells how {self.pid} ends")
            if "status" in message:
                self.returncode = int(message["status"])
                self._connection.close()
        return self.returncode


def receive(connection: socket.socket, timeout: float | None) -> dict[str, Any]:
    """One message; empty where the other side has gone. Raises OSError, such as TimeoutError."""
    connection.settimeout(timeout)
    data = connection.recv(MOST_MESSAGE_BYTES)
    return dict(json.loads(data)) if data else {}

"""Requests prewarmed processes, and asks them to fork runners."""

import hashlib
import json
import logging
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

from viewer.jobs.execution.following.runner_process import PrewarmedRunner, receive
from viewer.jobs.execution.starting.engine_runner import prewarm_module, runner_program
from viewer.models import Project

logger = logging.getLogger(__name__)

# The time limits for the fork, and for the fork to report that it starts.
SECONDS_TO_FORK = 2
SECONDS_TO_BEGIN = 10
# Prewarming immediately would slow down the runner that is starting.
SECONDS_AFTER_A_COLD_START = 10


def is_supported() -> bool:
    """Whether prewarming is switched on and the system supports it."""
    return bool(settings.PREWARM) and sys.platform == "linux" and hasattr(os, "pidfd_open")


def folder() -> Path:
    """The folder with the sockets of prewarmed processes, readable by the owner only."""
    path = Path(settings.DATA_DIR) / "prewarm"
    path.mkdir(exist_ok=True, mode=0o700)
    return path


def name_of(project: Project, engine: str) -> str:
    """The name of the prewarmed process for this project, its interpreter and this engine."""
    parts = (
        project.folder,
        project.interpreter,
        runner_program(engine),
        prewarm_module(engine),
    )
    mark = hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:12]
    return f"{project.pk}-{mark}"


@contextmanager
def address(name: str) -> Iterator[str]:
    """Yield a path of the socket that is short enough in any data folder. Valid within the block."""
    descriptor = os.open(folder(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}.socket"
    finally:
        os.close(descriptor)


def request_prewarm(project: Project | None, seconds: float = 0) -> None:
    """Ask the worker to prewarm a process for this project in ``seconds``. Never raises."""
    if not is_supported() or project is None or not project.is_confirmed:
        return
    path = folder() / f"{project.pk}.request"
    if seconds and path.exists():
        return
    try:
        path.touch(mode=0o600)
        due = time.time() + seconds
        os.utime(path, (due, due))
    except OSError:
        logger.debug("requesting a prewarmed process", exc_info=True)


def fork_runner(
    job_folder: str, project: Project, engine: str, environment: Mapping[str, str], lock: int, log: int
) -> PrewarmedRunner | None:
    """Have a prewarmed process fork the runner of this job. Return None without one, or if it refuses.

    The fork reports its start before it runs anything, so if this returns None, nothing of the job has run.
    A fork that received its request and does not report in time counts as started, so that no job starts
    twice.
    """
    if not is_supported():
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.settimeout(SECONDS_TO_FORK)
        with address(name_of(project, engine)) as path:
            connection.connect(path)
        pid = int(receive(connection, SECONDS_TO_FORK)["pid"])
        request = {
            "job_folder": job_folder,
            "folder": project.folder,
            "environment": dict(environment),
        }
        socket.send_fds(connection, [json.dumps(request).encode()], [lock, log])
    except (OSError, KeyError, ValueError):
        # There is no prewarmed process, or it did not receive the request.
        connection.close()
        return None
    if has_begun(connection):
        return PrewarmedRunner(pid, connection)
    connection.close()
    return None


def has_begun(connection: socket.socket) -> bool:
    """Whether the fork has started. It reports so before it runs anything."""
    try:
        reply = receive(connection, SECONDS_TO_BEGIN)
    except TimeoutError:
        return True
    except OSError:
        reply = {}
    reason = reply.get("reason", "it exited before it started")
    if reason:
        logger.warning("a job starts without a prewarmed process: %s", reason)
    return not reason

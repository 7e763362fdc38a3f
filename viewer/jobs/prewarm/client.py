"""Asks a process that waits with the engine imported for a job's child: a warm start."""

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

from viewer.jobs.execution.engine_runner import prewarm_module, runner_program
from viewer.jobs.execution.runner_process import PrewarmedRunner, receive
from viewer.models import Project

logger = logging.getLogger(__name__)

# To be forked, and to say that it begins.
SECONDS_TO_FORK = 2
SECONDS_TO_BEGIN = 10
# A process that waits would take the processors from a child that starts beside it.
SECONDS_AFTER_A_COLD_START = 10


def is_supported() -> bool:
    """Whether processes may wait here: it is switched on, and the system tells who connects and who ends."""
    return bool(settings.PREWARM) and sys.platform == "linux" and hasattr(os, "pidfd_open")


def folder() -> Path:
    """Where waiting processes are found, for the owner's eyes alone."""
    path = Path(settings.DATA_DIR) / "warm"
    path.mkdir(exist_ok=True, mode=0o700)
    return path


def name_of(project: Project, engine: str) -> str:
    """The name of the process that waits for this project, with its interpreter, and for no other."""
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
    """The socket's path, short enough for any data folder, to be used within this block."""
    descriptor = os.open(folder(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}.socket"
    finally:
        os.close(descriptor)


def request_prewarm(project: Project | None, seconds: float = 0) -> None:
    """Let the worker have a process wait for this project, so many seconds from now. Never an error."""
    if not is_supported() or project is None or not project.is_confirmed:
        return
    path = folder() / f"{project.pk}.wish"
    if seconds and path.exists():
        return
    try:
        path.touch(mode=0o600)
        due = time.time() + seconds
        os.utime(path, (due, due))
    except OSError:
        logger.debug("a wish for a warm start", exc_info=True)


def fork_runner(
    job_folder: Path, project: Project, engine: str, environment: Mapping[str, str], lock: int, log: int
) -> PrewarmedRunner | None:
    """Have this folder's child forked. None where it has to be started cold: then nothing of it has run.

    The child begins only after it has said so: as long as it has not, it has run nothing. Where it was told
    what to do and stays silent, it counts as started, and is not started again.
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
            "job_folder": str(job_folder),
            "folder": project.folder,
            "environment": dict(environment),
        }
        socket.send_fds(connection, [json.dumps(request).encode()], [lock, log])
    except (OSError, KeyError, ValueError):
        # Nobody waits, or it was not told what to do.
        connection.close()
        return None
    if has_begun(connection):
        return PrewarmedRunner(pid, connection)
    connection.close()
    return None


def has_begun(connection: socket.socket) -> bool:
    """Whether the child that has been told what to do does it. It says so first, and else does nothing."""
    try:
        said = receive(connection, SECONDS_TO_BEGIN)
    except TimeoutError:
        return True
    except OSError:
        said = {}
    reason = said.get("reason", "it has gone before it began")
    if reason:
        logger.warning("a job starts cold: %s", reason)
    return not reason

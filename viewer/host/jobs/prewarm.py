"""Prewarmed processes, which have imported an engine and wait for jobs of one project."""

import hashlib
import json
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import starmap
from pathlib import Path

import psutil
from django.conf import settings

from viewer.data_folder.locks import FileLock
from viewer.host.jobs.environment import (
    engine_of_project,
    is_proxy_with_password,
    prewarm_environment,
    runnable,
    runner_module,
    runner_program,
)
from viewer.host.jobs.events import redactor_of
from viewer.host.jobs.processes import PrewarmedRunner, receive
from viewer.host_requests import JobRefused
from viewer.models import Project

# Requests prewarmed processes, and asks them to fork runners.


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
        runner_module(engine),
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
    if not is_supported() or project is None or not project.is_confirmed or project.isolation:
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


# The worker's prewarmed processes: each has imported the engine and waits for jobs of one project.


PREWARM_RUNNER = Path(__file__).resolve().parents[2] / "runners" / "prewarm_runner.py"
REQUEST_POLL_SECONDS = 0.2
CHECK_SECONDS = 5.0
# Older requests were made while no worker was up, and are ignored.
MAX_REQUEST_AGE_SECONDS = 300
# An interpreter that could not be prewarmed is tried again after this time.
RETRY_SECONDS = 600.0
# A prewarmed process needs about 300 MB, and its jobs need more.
MIN_FREE_BYTES = 1024**3
MAX_LOG_CHARACTERS = 500


@dataclass
class PrewarmedProcess:
    """A process that waits for jobs of one project. Times are on the monotonic clock."""

    project: int
    process: "subprocess.Popen[bytes]"
    log: Path
    requested_at: float


@dataclass
class PrewarmPool:
    """The prewarmed processes of this worker by name, and the failures. Times are on the monotonic clock."""

    processes: dict[str, PrewarmedProcess] = field(default_factory=dict)
    failed_at: dict[str, float] = field(default_factory=dict)
    ending: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    polled_at: float = float("-inf")
    checked_at: float = float("-inf")


def maintain(pool: PrewarmPool) -> None:
    """Start requested processes, and end those that are no longer needed. Called repeatedly."""
    if not is_supported():
        return
    now = time.monotonic()
    if now - pool.checked_at >= CHECK_SECONDS:
        pool.checked_at = now
        end_unneeded(pool)
    if now - pool.polled_at >= REQUEST_POLL_SECONDS:
        pool.polled_at = now
        for project in take_requests():
            start(pool, project)


def take_requests() -> list[Project]:
    """The projects with a due request for a process. Deletes these requests."""
    found = []
    for path in folder().glob("*.request"):
        try:
            age = time.time() - path.stat().st_mtime
            if age < 0:
                continue
            path.unlink()
        except FileNotFoundError:
            continue  # another worker has taken it
        project = Project.objects.here().filter(pk=path.stem).first() if path.stem.isdigit() else None
        if project is not None and age < MAX_REQUEST_AGE_SECONDS:
            found.append(project)
    return found


def start(pool: PrewarmPool, project: Project) -> None:
    """Prewarm a process for the project, unless there is one or it is not possible.

    If the pool is full, ends the process with the oldest request.
    """
    name = _name_of(project)
    existing = pool.processes.get(name)
    if existing and existing.process.poll() is None:
        existing.requested_at = time.monotonic()
        return
    discard(pool, name)
    if not can_prewarm(pool, name, project):
        return
    while len(pool.processes) >= settings.PREWARM_PROCESSES:
        end(pool, min(pool.processes, key=lambda one: pool.processes[one].requested_at))
    lock = FileLock(folder() / f"{name}.lock").acquire()
    if lock is None:
        return  # another worker has one
    try:
        log = folder() / f"{name}.log"
        process = start_process(project, name, lock, log)
        pool.processes[name] = PrewarmedProcess(project.pk, process, log, time.monotonic())
    except OSError:
        logger.exception("prewarming a process for %s", project.name)
    finally:
        os.close(lock)


def can_prewarm(pool: PrewarmPool, name: str, project: Project) -> bool:
    """Whether a process can be prewarmed for this project now."""
    if time.monotonic() - pool.failed_at.get(name, float("-inf")) < RETRY_SECONDS:
        return False
    if project.isolation:
        # It would run the project's packages without a sandbox and limits, and no run starts in it.
        return False
    if psutil.virtual_memory().available < MIN_FREE_BYTES:
        return False
    if any(starmap(is_proxy_with_password, prewarm_environment(project).items())):
        logger.warning("%s is not prewarmed: the address of its proxy holds a password", project.name)
        pool.failed_at[name] = time.monotonic()
        return False
    try:
        runnable(project)
    except JobRefused:
        return False
    return True


def _name_of(project: Project) -> str:
    return name_of(project, engine_of_project(project))


def start_process(project: Project, name: str, lock: int, log: Path) -> "subprocess.Popen[bytes]":
    """Start the process. It exits when its standard input is closed. Raises OSError."""
    engine = engine_of_project(project)
    (log.parent / f"{name}.socket").unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        with address(name) as path:
            listener.bind(path)
        (log.parent / f"{name}.socket").chmod(0o600)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            return subprocess.Popen(
                [
                    *(project.interpreter, str(PREWARM_RUNNER), str(listener.fileno()), str(lock)),
                    *(str(settings.PREWARM_IDLE_SECONDS), str(runner_program(engine))),
                    runner_module(engine),
                ],
                cwd=project.folder,
                env=prewarm_environment(project),
                stdin=subprocess.PIPE,
                stdout=descriptor,
                stderr=descriptor,
                start_new_session=True,
                umask=settings.USERS_UMASK,
                pass_fds=(listener.fileno(), lock),
            )
        finally:
            os.close(descriptor)


def end_unneeded(pool: PrewarmPool) -> None:
    """End the processes whose project has changed, and all of them if memory is short."""
    projects = Project.objects.in_bulk([one.project for one in pool.processes.values()])
    is_short = psutil.virtual_memory().available < MIN_FREE_BYTES / 2
    for name, one in list(pool.processes.items()):
        project = projects.get(one.project)
        if one.process.poll() is not None:
            discard(pool, name)
        elif is_short or not project or not _may_wait(project, name):
            end(pool, name)
    pool.ending = [process for process in pool.ending if process.poll() is None]


def _may_wait(project: Project, name: str) -> bool:
    """Whether jobs of this project may still start in its prewarmed process."""
    return project.is_confirmed and not project.isolation and _name_of(project) == name


def discard(pool: PrewarmPool, name: str) -> None:
    """Remove an exited process from the pool. Log its output if it failed."""
    one = pool.processes.pop(name, None)
    if one is None:
        return
    if one.process.stdin:
        one.process.stdin.close()
    if one.process.returncode:
        if one.process.returncode > 0:
            pool.failed_at[name] = time.monotonic()
        logger.warning(
            "runs of project %s start without a prewarmed process: %s",
            one.project,
            _printed_by(one) or one.process.returncode,
        )


def _printed_by(one: PrewarmedProcess) -> str:
    """The end of what a process has printed, without secrets; empty if those are not known."""
    with suppress(OSError, JobRefused):
        redact = redactor_of(Project.objects.filter(pk=one.project).first())
        return str(redact(one.log.read_text(errors="replace").strip()))[-MAX_LOG_CHARACTERS:]
    return ""


def end(pool: PrewarmPool, name: str) -> None:
    """Stop sending jobs to the process. It exits when its last job has ended."""
    one = pool.processes.pop(name)
    if one.process.stdin:
        one.process.stdin.close()
    pool.ending.append(one.process)


def end_all(pool: PrewarmPool) -> None:
    """End all prewarmed processes."""
    for name in list(pool.processes):
        end(pool, name)

"""Has processes wait with the engine imported, for the projects that a person is about to run."""

import logging
import os
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from django.conf import settings

from viewer.jobs import locks
from viewer.jobs.execution.engine_runner import engine_of_project, prewarm_module, runner_program
from viewer.jobs.execution.environment import prewarm_environment
from viewer.jobs.execution.start import JobRefused, runnable
from viewer.jobs.prewarm import client
from viewer.models import Project

logger = logging.getLogger(__name__)

PREWARM_RUNNER = Path(__file__).resolve().parents[2] / "runners" / "prewarm_runner.py"
REQUEST_POLL_SECONDS = 0.2
CHECK_SECONDS = 5.0
# No worker was up to see it: whoever wished has gone on by now.
MAX_REQUEST_AGE_SECONDS = 300
# An interpreter that cannot wait is tried again after so long.
RETRY_SECONDS = 600.0
# One needs about 300 MB, and its jobs come on top.
MIN_FREE_BYTES = 1024**3
MAX_LOG_CHARACTERS = 500


@dataclass
class PrewarmedProcess:
    """A process that waits for the jobs of one project."""

    project: int
    process: "subprocess.Popen[bytes]"
    log: Path
    requested_at: float


@dataclass
class PrewarmPool:
    """What this worker has waiting, by name, and what could not. Times are on the monotonic clock."""

    waiting: dict[str, PrewarmedProcess] = field(default_factory=dict)
    unfit: dict[str, float] = field(default_factory=dict)
    ending: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    wishes_looked: float = float("-inf")
    checked: float = float("-inf")


def maintain(state: PrewarmPool) -> None:
    """Start what is wished for, and end what is of no use any more. Called again and again."""
    if not client.is_supported():
        return
    now = time.monotonic()
    if now - state.checked >= CHECK_SECONDS:
        state.checked = now
        end_unneeded(state)
    if now - state.wishes_looked >= REQUEST_POLL_SECONDS:
        state.wishes_looked = now
        for project in take_requests():
            start(state, project)


def take_requests() -> list[Project]:
    """The projects that are wished for by now. Each wish is taken once."""
    found = []
    for path in client.folder().glob("*.wish"):
        try:
            age = time.time() - path.stat().st_mtime
            if age < 0:
                continue
            path.unlink()
        except FileNotFoundError:
            continue  # another worker has taken it
        project = Project.objects.filter(pk=path.stem).first() if path.stem.isdigit() else None
        if project is not None and age < MAX_REQUEST_AGE_SECONDS:
            found.append(project)
    return found


def start(state: PrewarmPool, project: Project) -> None:
    """Have a process wait for the project, where it can and none does."""
    name = _name_of(project)
    there = state.waiting.get(name)
    if there and there.process.poll() is None:
        there.requested_at = time.monotonic()
        return
    discard(state, name)
    if not can_prewarm(state, name, project):
        return
    while len(state.waiting) >= settings.PREWARM_PROCESSES:
        end(state, min(state.waiting, key=lambda one: state.waiting[one].requested_at))
    lock = locks.acquire(client.folder() / f"{name}.lock")
    if lock is None:
        return  # another worker has one
    try:
        log = client.folder() / f"{name}.log"
        process = start_process(project, name, lock, log)
        state.waiting[name] = PrewarmedProcess(project.pk, process, log, time.monotonic())
    except OSError:
        logger.exception("starting a process that waits for %s", project.name)
    finally:
        os.close(lock)


def can_prewarm(state: PrewarmPool, name: str, project: Project) -> bool:
    """Whether a process may wait for it here and now."""
    if time.monotonic() - state.unfit.get(name, float("-inf")) < RETRY_SECONDS:
        return False
    if psutil.virtual_memory().available < MIN_FREE_BYTES:
        return False
    if any(
        "@" in value
        for variable, value in prewarm_environment(project).items()
        if "proxy" in variable.lower()
    ):
        logger.warning("%s is not kept warm: the address of its proxy holds a password", project.name)
        state.unfit[name] = time.monotonic()
        return False
    try:
        runnable(project)
    except JobRefused:
        return False
    return True


def _name_of(project: Project) -> str:
    return client.name_of(project, engine_of_project(project))


def start_process(project: Project, name: str, lock: int, log: Path) -> "subprocess.Popen[bytes]":
    """The process. It ends by itself where its standard input is closed. Raises OSError."""
    engine = engine_of_project(project)
    (log.parent / f"{name}.socket").unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        with client.address(name) as path:
            listener.bind(path)
        (log.parent / f"{name}.socket").chmod(0o600)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            return subprocess.Popen(
                [
                    *(project.interpreter, str(PREWARM_RUNNER), str(listener.fileno()), str(lock)),
                    *(str(settings.PREWARM_IDLE_SECONDS), str(runner_program(engine))),
                    prewarm_module(engine),
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


def end_unneeded(state: PrewarmPool) -> None:
    """Let go of those whose project is another by now, and of all where memory is short."""
    projects = Project.objects.in_bulk([one.project for one in state.waiting.values()])
    is_short = psutil.virtual_memory().available < MIN_FREE_BYTES / 2
    for name, one in list(state.waiting.items()):
        project = projects.get(one.project)
        if one.process.poll() is not None:
            discard(state, name)
        elif is_short or not project or not project.is_confirmed or _name_of(project) != name:
            end(state, name)
    state.ending = [process for process in state.ending if process.poll() is None]


def discard(state: PrewarmPool, name: str) -> None:
    """Put away what has ended by itself; why, where it should not have, goes to the log."""
    one = state.waiting.pop(name, None)
    if one is None:
        return
    if one.process.stdin:
        one.process.stdin.close()
    if one.process.returncode:
        if one.process.returncode > 0:
            state.unfit[name] = time.monotonic()
        said = one.log.read_text(errors="replace").strip()[-MAX_LOG_CHARACTERS:]
        logger.warning("runs of project %s start cold: %s", one.project, said or one.process.returncode)


def end(state: PrewarmPool, name: str) -> None:
    """Have it take no more jobs, and end once its last child has."""
    one = state.waiting.pop(name)
    if one.process.stdin:
        one.process.stdin.close()
    state.ending.append(one.process)


def end_all(state: PrewarmPool) -> None:
    """Let go of all."""
    for name in list(state.waiting):
        end(state, name)

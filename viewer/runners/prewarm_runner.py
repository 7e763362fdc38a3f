"""The program of a prewarmed process: imports the engine, waits, and forks itself for each job.

    <the project's interpreter> prewarm_runner.py <listener> <lock> <idle seconds> <runner> <module to import>

A worker starts it in the project's folder, with an environment without keys, and holds the other end of its
standard input: when that is closed, the process accepts no more jobs. ``listener`` and ``lock`` are
descriptors of a bound Unix socket and of a lock that is held while the process is running.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import socket
import struct
import sys
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import forkline_prewarm

LIFELINE = 0
# How often to check whether the worker is running, after it closed the lifeline.
POLL_MILLISECONDS = 1000
MAX_BACKLOG = 16


class Unfit(Exception):
    """The process cannot be forked safely. The message says why."""


@dataclass
class PrewarmState:
    """The state of a prewarmed process.

    ``children`` has, by process descriptor, the process id of each running job and the connection on which
    its end is reported. ``used`` is when a job last started or ended, on the monotonic clock.
    """

    listener: socket.socket
    lock: int
    idle_seconds: float
    runner: Path
    prepared: ModuleType
    found: forkline_prewarm.Surroundings
    installed: dict[str, int]
    worker: int = field(default_factory=os.getppid)
    children: dict[int, tuple[int, socket.socket]] = field(default_factory=dict)
    is_closed: bool = False
    used: float = field(default_factory=time.monotonic)

    def close_in_child(self) -> None:
        """Close the descriptors that a child does not need."""
        self.listener.close()
        os.close(self.lock)
        for descriptor, (_, connection) in self.children.items():
            os.close(descriptor)
            connection.close()


def main(arguments: list[str]) -> PrewarmState:
    """Import in advance, and start to listen. Return the process's state.

    Raises Unfit if the process cannot be forked safely.
    """
    listener, lock, idle_seconds, runner, module = arguments
    sys.path[0] = str(Path(runner).parent)
    installed = installed_packages()
    with forkline_prewarm.watched() as found:
        prepared = loaded(module)
    refuse_unsafe()
    # Keep the garbage collector from touching, and so copying, these objects in each child.
    gc.collect()
    gc.freeze()
    state = PrewarmState(
        socket.socket(fileno=int(listener)),
        int(lock),
        float(idle_seconds),
        Path(runner),
        prepared,
        found,
        installed,
    )
    state.listener.listen(MAX_BACKLOG)
    return state


def loaded(module: str) -> ModuleType:
    """Return the module after it has imported what jobs need. Raises Unfit if it could not."""
    try:
        prepared = importlib.import_module(module)
        prepared.load()
    except Exception as error:
        raise Unfit(f"{type(error).__name__}: {error}") from error
    return prepared


def refuse_unsafe() -> None:
    """Raise Unfit if another thread is running, or a module of the project was imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Numerical libraries end their idle threads at a fork, and start them again when needed.
        if (pid := os.fork()) == 0:
            os._exit(0)
    os.waitpid(pid, 0)
    names = other_threads()
    if names:
        raise Unfit(f"the engine starts threads as it is imported ({', '.join(names)})")
    module = forkline_prewarm.module_within(Path.cwd())
    if module:
        raise Unfit(f"with the engine, {module} of the project is imported")


def other_threads() -> list[str]:
    """Return the names of this process's other threads."""
    tasks = [task for task in Path("/proc/self/task").iterdir() if task.name != str(os.getpid())]
    return [(task / "comm").read_text().strip() for task in tasks]


def installed_packages() -> dict[str, int]:
    """Return the modification time of each folder that packages are installed in."""
    folders = [Path(path) for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    return {str(folder): folder.stat().st_mtime_ns for folder in folders if folder.is_dir()}


def wait(state: PrewarmState) -> socket.socket | None:
    """Fork for each connection. Return the connection in the child, and None when this process may exit."""
    while not is_over(state):
        polled = select.poll()
        for descriptor in (
            *state.children,
            *(() if state.is_closed else (LIFELINE, state.listener.fileno())),
        ):
            polled.register(descriptor, select.POLLIN)
        for descriptor, _ in polled.poll(milliseconds_to_wait(state)):
            if descriptor in state.children:
                report_end(state, descriptor)
            elif descriptor == LIFELINE:
                stop_accepting(state)
            elif not state.is_closed:
                connection = fork_for_one(state)
                if connection is not None:
                    return connection
    return None


def stop_accepting(state: PrewarmState) -> None:
    """Accept no more jobs; the end of running ones is still reported."""
    state.is_closed = True
    state.listener.close()


def is_over(state: PrewarmState) -> bool:
    """Return whether this process may exit."""
    if state.is_closed:
        # Without its worker there is nobody to report to.
        return not state.children or os.getppid() != state.worker
    return not state.children and time.monotonic() - state.used >= state.idle_seconds


def milliseconds_to_wait(state: PrewarmState) -> float:
    """Return the milliseconds to wait for a connection, or -1 for no limit."""
    if state.is_closed:
        return POLL_MILLISECONDS
    if state.children:
        return -1
    return max(0.0, state.used + state.idle_seconds - time.monotonic()) * 1000 + 1


def fork_for_one(state: PrewarmState) -> socket.socket | None:
    """Fork for a connection. Return the connection in the child, and None in the waiting process."""
    connection, _ = state.listener.accept()
    if user_of(connection) != os.getuid() or other_threads():
        connection.close()
        return None
    if installed_packages() != state.installed:
        connection.close()
        stop_accepting(state)
        return None
    pid = os.fork()
    if pid == 0:
        return connection
    state.children[os.pidfd_open(pid)] = (pid, connection)
    state.used = time.monotonic()
    return None


def user_of(connection: socket.socket) -> int:
    """Return the user id of the process at the other end."""
    size = struct.calcsize("3i")
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return int(struct.unpack("3i", credentials)[1])


def report_end(state: PrewarmState, descriptor: int) -> None:
    """Report how a child ended: its exit status, or the signal as a negative number."""
    pid, connection = state.children.pop(descriptor)
    os.close(descriptor)
    _, status = os.waitpid(pid, 0)
    # The other end may have gone.
    with connection, suppress(OSError):
        connection.send(json.dumps({"status": os.waitstatus_to_exitcode(status)}).encode())
    state.used = time.monotonic()


if __name__ == "__main__":
    try:
        state = main(sys.argv[1:])
        sys.stdout.write("Waiting.\n")
        sys.stdout.flush()
        connection = wait(state)
    except Unfit as unfit:
        sys.exit(f"Not started warm: {unfit}.")
    if connection is not None:
        state.close_in_child()
        forkline_prewarm.become(connection, state.runner, state.prepared, state.found)

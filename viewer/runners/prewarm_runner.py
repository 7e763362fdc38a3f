"""Waits with the engine imported, and forks itself for each job: its child need not import it again.

    <the project's interpreter> warm_runner.py <listener> <lock> <idle seconds> <runner> <module to import>

It is started in the project's folder with an environment that holds no key, by a worker that keeps the other
end of its standard input open: where that is closed, nobody wants it any more. ``listener`` and ``lock`` are
descriptors: a Unix socket that is bound already, and a lock that says that this process is there.
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

from forkline_prewarm import child, surroundings

LIFELINE = 0
# How often it is looked whether the worker is still there, once it has let go.
LOOK_MILLISECONDS = 1000
MOST_WAITING = 16


class Unfit(Exception):
    """This process cannot be forked safely. Its message says why."""


@dataclass
class Waiting:
    """``children`` are those that run: by their descriptor, their process id and who is told how they end."""

    listener: socket.socket
    lock: int
    idle_seconds: float
    runner: Path
    prepared: ModuleType
    found: surroundings.Surroundings
    installed: dict[str, int]
    worker: int = field(default_factory=os.getppid)
    children: dict[int, tuple[int, socket.socket]] = field(default_factory=dict)
    is_let_go: bool = False
    used: float = field(default_factory=time.monotonic)

    def let_go_in_child(self) -> None:
        """Close what a child has nothing to do with."""
        self.listener.close()
        os.close(self.lock)
        for descriptor, (_, connection) in self.children.items():
            os.close(descriptor)
            connection.close()


def main(arguments: list[str]) -> Waiting:
    """Import ahead, and listen for who wants a child.

    Raises Unfit where it cannot be forked safely.
    """
    listener, lock, idle_seconds, runner, module = arguments
    sys.path[0] = str(Path(runner).parent)
    installed = installed_packages()
    with surroundings.watched() as found:
        prepared = loaded(module)
    refuse_unsafe()
    # What is there stays: nothing of it is looked through again, and so copied, in each child.
    gc.collect()
    gc.freeze()
    waiting = Waiting(
        socket.socket(fileno=int(listener)),
        int(lock),
        float(idle_seconds),
        Path(runner),
        prepared,
        found,
        installed,
    )
    waiting.listener.listen(MOST_WAITING)
    return waiting


def loaded(module: str) -> ModuleType:
    """The module, once it has loaded what jobs need. Raises Unfit where it could not."""
    try:
        prepared = importlib.import_module(module)
        prepared.load()
    except Exception as error:
        raise Unfit(f"{type(error).__name__}: {error}") from error
    return prepared


def refuse_unsafe() -> None:
    """Raises Unfit where another thread runs, or anything of the project has been imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Numerical libraries end their waiting threads at a fork, and begin them anew when they are needed.
        if (tried := os.fork()) == 0:
            os._exit(0)
    os.waitpid(tried, 0)
    names = other_threads()
    if names:
        raise Unfit(f"the engine starts threads as it is imported ({', '.join(names)})")
    module = surroundings.module_within(Path.cwd())
    if module:
        raise Unfit(f"with the engine, {module} of the project is imported")


def other_threads() -> list[str]:
    """The names of this process's threads, but of the one that asks."""
    tasks = [task for task in Path("/proc/self/task").iterdir() if task.name != str(os.getpid())]
    return [(task / "comm").read_text().strip() for task in tasks]


def installed_packages() -> dict[str, int]:
    """When something was last installed or removed, for each folder that packages are installed in."""
    folders = [Path(path) for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    return {str(folder): folder.stat().st_mtime_ns for folder in folders if folder.is_dir()}


def wait(state: Waiting) -> socket.socket | None:
    """Fork for whoever connects. In the child: who has asked for it; None once nobody needs this process."""
    while not is_over(state):
        polled = select.poll()
        for descriptor in (
            *state.children,
            *(() if state.is_let_go else (LIFELINE, state.listener.fileno())),
        ):
            polled.register(descriptor, select.POLLIN)
        for descriptor, _ in polled.poll(milliseconds_to_wait(state)):
            if descriptor in state.children:
                tell(state, descriptor)
            elif descriptor == LIFELINE:
                let_go(state)
            elif not state.is_let_go:
                asked = fork_for_one(state)
                if asked is not None:
                    return asked
    return None


def let_go(state: Waiting) -> None:
    """Take nobody any more; those that run are still told of."""
    state.is_let_go = True
    state.listener.close()


def is_over(state: Waiting) -> bool:
    """Whether nobody needs this process any more."""
    if state.is_let_go:
        # Whose worker has gone too has nobody to tell.
        return not state.children or os.getppid() != state.worker
    return not state.children and time.monotonic() - state.used >= state.idle_seconds


def milliseconds_to_wait(state: Waiting) -> float:
    if state.is_let_go:
        return LOOK_MILLISECONDS
    if state.children:
        return -1
    return max(0.0, state.used + state.idle_seconds - time.monotonic()) * 1000 + 1


def fork_for_one(state: Waiting) -> socket.socket | None:
    """Fork for who has connected. In the child: the connection; None in the process that waits."""
    connection, _ = state.listener.accept()
    if user_of(connection) != os.getuid() or other_threads():
        connection.close()
        return None
    if installed_packages() != state.installed:
        connection.close()
        let_go(state)
        return None
    pid = os.fork()
    if pid == 0:
        return connection
    state.children[os.pidfd_open(pid)] = (pid, connection)
    state.used = time.monotonic()
    return None


def user_of(connection: socket.socket) -> int:
    """The user id of who is at the other end."""
    size = struct.calcsize("3i")
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return int(struct.unpack("3i", credentials)[1])


def tell(state: Waiting, descriptor: int) -> None:
    """Tell how a child has ended: its exit status, or the signal as a negative number."""
    pid, connection = state.children.pop(descriptor)
    os.close(descriptor)
    _, status = os.waitpid(pid, 0)
    # It may be that nobody listens any more.
    with connection, suppress(OSError):
        connection.send(json.dumps({"status": os.waitstatus_to_exitcode(status)}).encode())
    state.used = time.monotonic()


if __name__ == "__main__":
    try:
        state = main(sys.argv[1:])
        sys.stdout.write("Waiting.\n")
        sys.stdout.flush()
        asked = wait(state)
    except Unfit as unfit:
        sys.exit(f"Not started warm: {unfit}.")
    if asked is not None:
        state.let_go_in_child()
        child.become(asked, state.runner, state.prepared, state.found)

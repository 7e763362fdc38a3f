"""The program of a prewarmed process: imports the engine, waits, and forks itself for each job.

    <the project's interpreter> prewarm_runner.py <listener> <lock> <idle seconds> <runner> <module to import>

A worker starts it in the project's folder, with an environment without keys, and holds the other end of its
standard input: when that is closed, the process accepts no more jobs. ``listener`` and ``lock`` are
descriptors of a bound Unix socket and of a lock that is held while the process is running.

A run in a forked process must be equal to one that starts cold, so what the imports read and changed is
recorded.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import select
import socket
import struct
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

# Read by the interpreter, by C libraries, or by iterating over all names: reading these is not observed.
UNOBSERVED_PREFIXES = (
    *("PYTHON", "LD_", "LC_", "LANG", "TZ", "MALLOC_", "GLIBC_"),
    *("OPENBLAS_", "OMP_", "MKL_", "KMP_", "CHROMA_", "GRPC_"),
)
UNOBSERVED_SUFFIXES = ("_PROXY", "_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")
# The package with the runners and what they load by path.
FORKLINE = Path(__file__).resolve().parents[1]
# How long the child waits for the request.
REQUEST_SECONDS = 10
MAX_REQUEST_BYTES = 1024 * 1024
MAX_DESCRIPTORS = 2


@dataclass
class Surroundings:
    """What imports read and changed.

    ``given``: the environment at the start. ``seen``: the variables that imports read, with their values in
    ``given``. ``made``: the variables that imports set (None: deleted). ``modules``: the top-level names of
    the loaded modules.
    """

    given: dict[str, str]
    seen: dict[str, str | None] = field(default_factory=dict)
    made: dict[str, str | None] = field(default_factory=dict)
    modules: frozenset[str] = frozenset()

    def enter(self, environment: Mapping[str, str]) -> None:
        """Set the process's environment to what a cold start would have after the same imports."""
        os.environ.clear()
        os.environ.update(environment)
        for name, value in self.made.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def other_variable(self, environment: Mapping[str, str]) -> str:
        """Return a variable that had another value during the imports, or an empty string."""
        for name in sorted({*environment, *self.given}):
            if is_unobserved(name) and environment.get(name) != self.given.get(name):
                return name
        return next((name for name, value in self.seen.items() if os.environ.get(name) != value), "")

    def other_module(self, folder: Path) -> str:
        """Return a module of the project that a cold start would import instead, or an empty string."""
        for source in (folder, folder / "src"):
            for entry in source.iterdir() if source.is_dir() else ():
                is_module = entry.suffix == ".py" or (entry / "__init__.py").is_file()
                if is_module and entry.name.removesuffix(".py") in self.modules:
                    return entry.name
        return ""


def is_unobserved(name: str) -> bool:
    """Return whether reading this variable is not observed."""
    return name.startswith(UNOBSERVED_PREFIXES) or name.upper().endswith(UNOBSERVED_SUFFIXES)


@contextmanager
def watched() -> Iterator[Surroundings]:
    """Record what this block imports, and what it reads and sets in the environment.

    Yields the record, which is complete after the block.
    """
    found = Surroundings(given_environment())
    before = top_names()
    set_at_start = {name for name in os.environ if name not in found.given}
    kind: Any = type(os.environ)
    read, write = kind.__getitem__, kind.__setitem__
    names: set[str] = set()

    def reading(self: Any, name: str) -> str:
        if name not in names:
            found.seen.setdefault(name, found.given.get(name))
        value: str = read(self, name)
        return value

    def writing(self: Any, name: str, value: str) -> None:
        names.add(name)
        write(self, name, value)

    kind.__getitem__, kind.__setitem__ = reading, writing
    try:
        yield found
    finally:
        kind.__getitem__, kind.__setitem__ = read, write
    now = dict(os.environ)
    changed = {name for name in {*now, *found.given} if now.get(name) != found.given.get(name)}
    # Includes variables that the interpreter set before this block.
    found.made = {name: now.get(name) for name in changed}
    found.seen = {name: value for name, value in found.seen.items() if name not in set_at_start}
    found.modules = frozenset(top_names() - before)


def given_environment() -> dict[str, str]:
    """Return the environment that this process was started with."""
    pairs = (part.partition(b"=") for part in Path("/proc/self/environ").read_bytes().split(b"\0") if part)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def top_names() -> set[str]:
    """Return the top-level names of the loaded modules."""
    return {name.partition(".")[0] for name in sys.modules} - {
        "forkline_crewai",
        "forkline_langgraph",
        "forkline_runner",
        "forkline_tables",
    }


def module_within(folder: Path) -> str:
    """Return a loaded module whose file is in this folder but not in an environment, or an empty string."""
    environment = Path(sys.prefix).resolve()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str):
            continue
        path = Path(os.path.realpath(file))
        if path.is_relative_to(folder) and not any(
            path.is_relative_to(other) for other in (environment, FORKLINE)
        ):
            return name
    return ""


def become(connection: socket.socket, runner: Path, prepared: ModuleType, found: Surroundings) -> None:
    """Receive a job's request in a forked process, and run it.

    Return if the other side has gone, or the job must start cold.

    Only this process receives the request, so that keys never reach the waiting process.
    """
    os.setsid()
    null = open_null()
    os.dup2(null, 0)
    os.close(null)
    try:
        with connection:
            agreed = agree(connection, prepared, found)
    except OSError:
        return  # the other side has gone
    if agreed:
        job_folder, log = agreed
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        run(runner, job_folder, prepared.__name__)


def agree(connection: socket.socket, prepared: ModuleType, found: Surroundings) -> tuple[str, int] | None:
    """Return the job's folder and log once both sides know that it runs here, or None if it does not.

    Raises OSError if the other side has gone.
    """
    connection.settimeout(REQUEST_SECONDS)
    connection.send(json.dumps({"pid": os.getpid()}).encode())
    data, descriptors, flags, _ = socket.recv_fds(connection, MAX_REQUEST_BYTES, MAX_DESCRIPTORS)
    if not data or len(descriptors) < MAX_DESCRIPTORS or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        return None
    request = json.loads(data)
    try:
        reason = enter(request, prepared, found)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    connection.send(json.dumps({"reason": reason}).encode())
    return None if reason else (request["job_folder"], descriptors[1])


def enter(request: dict[str, Any], prepared: ModuleType, found: Surroundings) -> str:
    """Set up the process like a cold start. Return why that is impossible, or an empty string."""
    folder = Path(request["folder"])
    os.chdir(folder)
    found.enter(request["environment"])
    if hasattr(prepared, "begin"):
        prepared.begin()
    time.tzset()
    numbers: Any = sys.modules.get("numpy.random")
    if numbers is not None:
        # Python reseeds its own random numbers after a fork.
        numbers.seed()
    variable = found.other_variable(request["environment"])
    if variable:
        return f"{variable} has another value than when the engine was imported"
    module = found.other_module(folder)
    return f"the project has its own {module}" if module else ""


def open_null() -> int:
    """Return a descriptor of the null device. Raises OSError."""
    return os.open(os.devnull, os.O_RDONLY)


def run(runner: Path, folder: str, module: str) -> None:
    """Run the runner's program as the interpreter would."""
    sys.argv = [str(runner), folder, module]
    sys.path[0] = str(runner.parent)
    runpy.run_path(str(runner), run_name="__main__")


LIFELINE = 0
# How often to check whether the worker is running, after it closed the lifeline.
POLL_MILLISECONDS = 1000
MAX_BACKLOG = 16
# The pause if a waiting connection can neither be accepted nor refused.
SECONDS_WITHOUT_DESCRIPTORS = 0.1


class Unfit(Exception):
    """The process cannot be forked safely. The message says why."""


@dataclass
class PrewarmState:
    """The state of a prewarmed process.

    ``children`` has, by process descriptor, the process id of each running job and the connection on which
    its end is reported. ``used`` is when a job last started or ended, on the monotonic clock. ``spare`` is a
    descriptor that is closed to refuse a connection when no other is left.
    """

    listener: socket.socket
    lock: int
    idle_seconds: float
    runner: Path
    prepared: ModuleType
    found: Surroundings
    installed: dict[str, int]
    worker: int = field(default_factory=os.getppid)
    children: dict[int, tuple[int, socket.socket]] = field(default_factory=dict)
    is_closed: bool = False
    used: float = field(default_factory=time.monotonic)
    spare: int | None = field(default_factory=open_null)

    def close_in_child(self) -> None:
        """Close the descriptors that a child does not need."""
        self.listener.close()
        os.close(self.lock)
        self.close_spare()
        for descriptor, (_, connection) in self.children.items():
            os.close(descriptor)
            connection.close()

    def close_spare(self) -> None:
        """Close the spare descriptor, if it is open."""
        if self.spare is not None:
            os.close(self.spare)
            self.spare = None


def main(arguments: list[str]) -> PrewarmState:
    """Import in advance, and start to listen. Return the process's state.

    Raises Unfit if the process cannot be forked safely.
    """
    listener, lock, idle_seconds, runner, module = arguments
    sys.path[0] = str(Path(runner).parent)
    installed = installed_packages()
    with watched() as found:
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
    module = module_within(Path.cwd())
    if module:
        raise Unfit(f"with the engine, {module} of the project is imported")


def other_threads() -> list[str]:
    """Return the names of this process's other threads."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        # A thread may end meanwhile.
        with suppress(OSError):
            if task.name != str(os.getpid()):
                names.append((task / "comm").read_text().strip())
    return names


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
    """Fork for a connection. Return the connection in the child, and None in the waiting process.

    Without descriptors or memory, the connection is closed, so that its job starts cold.
    """
    try:
        connection, _ = state.listener.accept()
    except OSError:
        refuse_one(state)
        return None
    try:
        if user_of(connection) != os.getuid() or other_threads():
            connection.close()
            return None
        if installed_packages() != state.installed:
            connection.close()
            stop_accepting(state)
            return None
        # The child may have begun when its descriptor is opened, so there has to be one.
        reserved = open_null()
    except OSError:
        connection.close()
        return None
    try:
        pid = os.fork()
    except OSError:
        connection.close()
        return None
    finally:
        os.close(reserved)
    if pid == 0:
        return connection
    state.children[os.pidfd_open(pid)] = (pid, connection)
    state.used = time.monotonic()
    return None


def refuse_one(state: PrewarmState) -> None:
    """Accept a connection with the spare descriptor, and close it."""
    state.close_spare()
    try:
        state.listener.accept()[0].close()
        state.spare = open_null()
    except OSError:
        # Otherwise, this process would try again without a pause.
        time.sleep(SECONDS_WITHOUT_DESCRIPTORS)


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
        become(connection, state.runner, state.prepared, state.found)

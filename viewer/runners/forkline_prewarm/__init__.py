"""A prewarmed process of any engine: what its imports read and changed, and how it becomes a job's runner.

A run in it must be equal to one that starts cold. The command line names the module that imports in advance.
"""

from __future__ import annotations

import json
import os
import runpy
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
FORKLINE = Path(__file__).resolve().parents[2]
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
        "forkline_prewarm",
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
    null = os.open(os.devnull, os.O_RDONLY)
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
        run(runner, job_folder)


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


def run(runner: Path, folder: str) -> None:
    """Run the runner's program as the interpreter would."""
    sys.argv = [str(runner), folder]
    sys.path[0] = str(runner.parent)
    runpy.run_path(str(runner), run_name="__main__")

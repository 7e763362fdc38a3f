"""Imports an engine and forks itself for each program to run: prewarmed_process.py SOCKET ENGINE OWNER.

It ends with the process whose id is OWNER.

Each connection requests one program in a line of JSON, and receives its process id and, at its
end, its status. Nothing of a project or of Forkline is imported before the fork.
"""

import atexit
import contextlib
import gc
import importlib
import importlib.util
import json
import os
import runpy
import select
import signal
import socket
import sqlite3
import sys
import warnings
from pathlib import Path
from typing import Any

# The status of a program that has ended.
statuses: list[int] = []


def end_at_once() -> None:
    """End the process with its status, without freeing every object of the engine, which takes a second."""
    if statuses:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(statuses[0])


# Registered before the engine's functions, so that it is called after them.
atexit.register(end_at_once)

# The modules that running and restoring import, including lazy imports.
MODULES = {
    "crewai": (
        "crewai",
        "crewai.flow.flow",
        "crewai.project",
        "crewai.state.checkpoint_listener",
        "crewai.state.provider.sqlite_provider",
        "crewai.tools.agent_tools.agent_tools",
        "crewai.llms.providers.openai.completion",
        "openai.resources.chat.completions",
    ),
    "langgraph": (
        "langgraph.checkpoint.sqlite.aio",
        "langgraph.func",
        "langgraph.graph.message",
        "langgraph.pregel.debug",
        "langchain_core.language_models",
        "langchain_core.tools",
        "langchain_core.tracers.log_stream",
    ),
}
# Missing in some versions. A flow's memory imports ``lance_namespace``, which takes seconds.
OPTIONAL = {
    "crewai": (
        *("crewai.hooks.contexts", "crewai.llms.cache", "crewai.skills.tool"),
        "crewai.memory.storage.factory",
        *("crewai.tasks.hallucination_guardrail", "crewai.tasks.llm_guardrail", "crewai.memory.memory_scope"),
        *("crewai.experimental.agent_executor", "crewai.tools.memory_tools", "lance_namespace"),
        *("httpcore._sync.connection_pool", "httpcore._async.connection_pool", "h11"),
        "anyio._backends._asyncio",
        *("openai.resources", "openai.resources.responses", "encodings.idna"),
    ),
    "langgraph": ("langchain.agents", "langgraph.prebuilt", "langgraph.checkpoint.postgres.aio"),
}


def load(engine: str) -> None:
    """Import an engine, and what its runs import."""
    if engine == "crewai" and sqlite3.sqlite_version_info < (3, 45):
        sys.modules["sqlite3"] = importlib.import_module("pysqlite3")
    for name in MODULES[engine]:
        importlib.import_module(name)
    for name in (*OPTIONAL[engine], *forkable_storage()):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def forkable_storage() -> list[str]:
    """Return the storage of CrewAI's memory if its threads start again in a fork, as with newer LanceDB."""
    found = importlib.util.find_spec("lancedb")
    if not found or not found.origin:
        return []
    loop = Path(found.origin).with_name("background_loop.py")
    if not loop.exists() or "register_at_fork" not in loop.read_text():
        return []
    warnings.filterwarnings("ignore", "lancedb fork support is experimental")
    return ["crewai.memory.storage.lancedb_storage"]


def storage_path() -> str:
    """Return where CrewAI stores what it embeds."""
    try:
        paths = importlib.import_module("crewai_core.paths")
    except ModuleNotFoundError:
        # CrewAI 1.14
        paths = importlib.import_module("crewai.utilities.paths")
    return str(paths.db_storage_path())


def main(address: str, engine: str, owner: int) -> None:
    """Serve until the owner has ended."""
    ended = os.pidfd_open(owner)
    sys.path.pop(0)
    load(engine)
    server = socket.socket(socket.AF_UNIX)
    # The address appears when the server listens: before, a connection is refused.
    server.bind(f"{address}.new")
    server.listen(16)
    Path(f"{address}.new").rename(address)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # Keep the garbage collector of each fork from touching, and so copying, these objects.
    gc.collect()
    gc.freeze()
    while ended not in select.select([server.fileno(), ended], [], [])[0]:
        connection, _ = server.accept()
        if os.fork() == 0:
            server.close()
            os.close(ended)
            watch(connection)
            return
        connection.close()


def watch(connection: socket.socket) -> None:
    """Run the program in a fork of this process, and send its process id and its status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    asked = json.loads(connection.makefile().readline())
    child = os.fork()
    if child == 0:
        connection.close()
        return become(**asked)
    connection.sendall(f"{child}\n".encode())
    _, status = os.waitpid(child, 0)
    # The client may have disconnected.
    with contextlib.suppress(OSError):
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def become(program: str, arguments: list[str], folder: str, environment: dict[str, str], log: str) -> None:
    """Run the program as if this process had been started for it."""
    os.setsid()
    os.chdir(folder)
    for source, target in ((os.devnull, 0), (log, 1), (log, 2)):
        flags = os.O_RDONLY if target == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND
        descriptor = os.open(source, flags, 0o600)
        os.dup2(descriptor, target)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(environment)
    if "crewai" in sys.modules:
        # Values that the engine computes at import.
        storage: Any = importlib.import_module("crewai.rag.chromadb.config")
        storage.DEFAULT_STORAGE_PATH = storage_path()
    sys.argv = [program, *arguments]
    sys.path.insert(0, str(Path(program).parent))
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            statuses.append(ended.code or 0)
        raise
    statuses.append(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))

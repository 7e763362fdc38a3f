"""Records threads of the graphs project with LangGraph, and runs its runner on a job folder."""

import hashlib
import json
import os
import sqlite3
import subprocess
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.engine_runs.prewarmed import WarmPython, launched, shared_python, warm_python
from tests.engine_runs.runs import Child, Ended, ended, succeeded
from viewer.host.jobs.spool import REQUEST, answer_name

ROOT = Path(__file__).resolve().parent.parent.parent
RUNNER, JOBS = ROOT / "viewer/runners/runner.py", "forkline_langgraph.job"
PROJECT = Path(__file__).resolve().parent / "projects/graphs"
# The file that nodes add their names to, and the store.
NODES, STORE = "nodes", "threads.sqlite"

# Thread: its graph.
THREADS = {
    "fan": "fan",
    "failed": "fan",
    "approval": "approval",
    "nested": "nested",
    "spread": "spread",
    "several": "several",
    "chat": "chat",
}
# The node at which a thread fails.
FAILING = {"failed": "right", "spread": "work-b"}
TICKET = {"number": 1, "title": "printer"}


@dataclass(frozen=True)
class WarmGraphs:
    """Processes that have imported LangGraph: one as runners use it, and one as its users do."""

    runner: WarmPython
    engine: WarmPython


def warm_graphs(python: Path, folder: Path, owner: int) -> WarmGraphs:
    """Return the processes of an interpreter in this folder. They end with the process ``owner``."""
    # Read when the engine is imported, and set by the runner.
    strict = {"LANGGRAPH_STRICT_MSGPACK": "true"}
    plain = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    folder.mkdir(exist_ok=True)
    return WarmGraphs(
        shared_python(python, plain | strict, folder / "runner", "langgraph", owner),
        shared_python(python, plain, folder / "engine", "langgraph", owner),
    )


def environment(folder: Path) -> dict[str, str]:
    """Return the environment that a project's environment file and a worker give a runner."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "NODES_FILE": str(folder / NODES),
        "PYTHONDONTWRITEBYTECODE": "1",
        # As the project's langgraph.json has it.
        "TOPIC_PREFIX": "the ",
    }


def record(
    python: Path | WarmPython, folder: Path, graph: str, thread: str, given: Any, store: str = ""
) -> None:
    """Run a graph on a thread of the folder's store, or of another one, as its user would."""
    arguments = [store or str(folder / STORE), graph, thread, json.dumps(given)]
    run_program(python, folder, PROJECT / "record.py", *arguments)


def run_program(
    python: Path | WarmPython, folder: Path, program: Path, *arguments: str, **variables: str
) -> str:
    """Run a program of the project's user with LangGraph. Return what it printed."""
    log = folder / f"{program.stem}-{uuid.uuid4().hex[:8]}.log"
    child = launched(python, program, arguments, PROJECT, environment(folder) | variables, log)
    status, printed = child.wait(120), log.read_text()
    log.unlink()
    assert status == 0, printed[-2000:]
    return printed


def record_all_threads(folder: Path, python: Path) -> None:
    """Run each graph up to its end, its failure or its question."""
    with (
        tempfile.TemporaryDirectory() as outside,
        warm_python(python, environment(folder), Path(outside), "langgraph") as warm,
    ):
        record_threads(folder, warm)


def record_threads(folder: Path, python: Path | WarmPython) -> None:
    for thread, graph in THREADS.items():
        failing = folder / f"fail-{FAILING.get(thread)}"
        failing.touch()
        record(python, folder, graph, thread, {"topic": "cats", "ticket": TICKET})
        failing.unlink()
    (folder / NODES).unlink()


def checkpoints(folder: Path, thread: str, namespace: str = "") -> list[str]:
    """The ids of a thread's checkpoints, oldest first."""
    # Without a log, nothing is created next to the store. A run that was killed leaves its log.
    mode = "mode=ro" if (folder / f"{STORE}-wal").exists() else "mode=ro&immutable=1"
    with closing(sqlite3.connect(f"file:{folder / STORE}?{mode}", uri=True)) as connection:
        rows = connection.execute(
            "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY 1",
            (thread, namespace),
        )
        return [str(row[0]) for row in rows]


def digests(folder: Path) -> dict[str, str]:
    """Return a hash of the store and of each file that belongs to it."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob(f"{STORE}*"))
    }


class Graphs:
    """Runs jobs on the threads in a folder."""

    def __init__(self, python: Path, folder: Path, warm: WarmGraphs | None = None) -> None:
        self.python, self.folder = python, folder
        # What starts a runner, and LangGraph itself.
        self.runner: Path | WarmPython = warm.runner if warm else python
        self.engine: Path | WarmPython = warm.engine if warm else python
        self.store = folder / STORE
        # More of the environment of its jobs.
        self.variables: dict[str, str] = {}
        self._jobs = 0

    @cached_property
    def version(self) -> tuple[int, ...]:
        """The version of LangGraph."""
        code = "import importlib.metadata as found; print(found.version('langgraph'))"
        printed = subprocess.run([self.python, "-c", code], capture_output=True, text=True, check=True)
        return tuple(int(part) for part in printed.stdout.strip().split(".")[:2])

    @property
    def location(self) -> dict[str, str]:
        """The location of the threads, as requests have it."""
        return {"path": str(self.store), "store_kind": "sqlite"}

    def checkpoints(self, thread: str, namespace: str = "") -> list[str]:
        """The ids of a thread's checkpoints, oldest first."""
        return checkpoints(self.folder, thread, namespace)

    def nodes(self) -> list[str]:
        """Return the nodes that ran since the last call, in alphabetical order."""
        ran = sorted(self.order())
        (self.folder / NODES).unlink(missing_ok=True)
        return ran

    def order(self) -> list[str]:
        """Return the nodes that ran since the last call of ``nodes``, in their order."""
        path = self.folder / NODES
        return path.read_text().split() if path.exists() else []

    def namespace(self, thread: str) -> str:
        """The namespace of the only subgraph of a thread."""
        with closing(sqlite3.connect(f"file:{self.store}?mode=ro&immutable=1", uri=True)) as connection:
            query = (
                "SELECT DISTINCT checkpoint_ns FROM checkpoints WHERE thread_id = ? AND checkpoint_ns <> ''"
            )
            return str(connection.execute(query, (thread,)).fetchone()[0])

    def request(
        self,
        kind: str,
        graph: str,
        thread: str = "",
        at: int = -1,
        *,
        state: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        steps: Sequence[str] = (),
        typed: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Return the request of a job from the checkpoint at the position ``at``, as a form makes it.

        ``graph`` is in the module graphs, or an entry point; ``typed`` are answers and run settings.
        """
        entry_point = graph if ":" in graph else f"graphs:{graph}"
        chosen = {"id": "", "source": ""}
        if kind != "run":
            found = self.checkpoints(thread)[at]
            chosen = {"id": found, "source": f"{self.location['path']}#{thread}/{found}"}
        return {
            "job": str(uuid.uuid4()),
            "kind": kind,
            "checkpoint": chosen,
            "location": self.location,
            "entity": "graph",
            "name": graph,
            "branch": "what-if",
            "inputs": inputs or {},
            "outputs": {},
            "state": state,
            "steps": [{"task": step, "action": "runs"} for step in steps],
            "folder": str(PROJECT),
            "entry_point": entry_point,
            "entry_points": [entry_point],
            **(typed or {}),
            "options": options | ({"thread": thread} if kind == "run" and thread else {}),
        }

    def by_engine(self, code: str, *arguments: str) -> str:
        """Run code with LangGraph, as a user's script would. Return what it printed."""
        program = self.folder / "program.py"
        program.write_text(f"import sys\nsys.path.insert(0, {str(PROJECT)!r})\n{code}")
        return run_program(self.engine, self.folder, program, *arguments)

    def run(self, request: dict[str, Any], *answers: str) -> Ended:
        """Run a job to its end, with these answers to its questions."""
        child, folder = self.start(request, *answers)
        return ended(folder, child)

    def completed(self, request: dict[str, Any], *answers: str) -> Ended:
        """Run a job that has to succeed, with these answers to its questions."""
        return succeeded(self.run(request, *answers))

    def start(self, request: dict[str, Any], *answers: str) -> tuple[Child, Path]:
        """Start a job. Return its process and its folder."""
        self._jobs += 1
        folder = self.folder / f"job-{self._jobs}"
        folder.mkdir()
        (folder / REQUEST).write_text(json.dumps(request))
        for number, text in enumerate(answers, 1):
            (folder / answer_name(number)).write_text(json.dumps({"text": text}))
        self.nodes()
        variables = {**environment(self.folder), **self.variables}
        return launched(
            self.runner, RUNNER, [str(folder), JOBS], folder, variables, folder / "log.txt"
        ), folder

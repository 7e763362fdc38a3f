"""Threads that LangGraph wrote, and its runner."""

import shutil
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import made_once
from tests.engine_runs.graphs import NODES, Graphs, record

# Thread: its graph.
THREADS = {"fan": "fan", "failed": "fan", "approval": "approval", "nested": "nested"}
TICKET = {"number": 1, "title": "printer"}


@pytest.fixture(scope="session")
def recorded_threads(graph_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of threads, written by LangGraph once for all tests."""
    return made_once(tmp_path_factory, "graph_threads", partial(record_threads, python=graph_python))


def record_threads(folder: Path, python: Path) -> None:
    """Run each graph up to its end, its failure or its question."""
    for thread, graph in THREADS.items():
        failing = folder / "fail-right"
        if thread == "failed":
            failing.touch()
        record(python, folder, graph, thread, {"topic": "cats", "ticket": TICKET})
        failing.unlink(missing_ok=True)
    (folder / NODES).unlink()


@pytest.fixture
def graphs(recorded_threads: Path, graph_python: Path, tmp_path: Path) -> Graphs:
    """Runs jobs on a copy of the threads."""
    folder = shutil.copytree(recorded_threads, tmp_path / "threads")
    return Graphs(graph_python, Path(folder))

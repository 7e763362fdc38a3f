"""Threads that LangGraph wrote, and their runner."""

import shutil
from pathlib import Path

import pytest

from tests.engine_runs.graphs import Graphs, WarmGraphs


@pytest.fixture
def graphs(recorded_threads: Path, graph_python: Path, warm_langgraph: WarmGraphs, tmp_path: Path) -> Graphs:
    """Runs jobs on a copy of the threads."""
    folder = shutil.copytree(recorded_threads, tmp_path / "threads")
    return Graphs(graph_python, Path(folder), warm_langgraph)

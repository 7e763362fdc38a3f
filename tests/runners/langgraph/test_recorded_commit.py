"""A thread is forked with a recorded commit, although the project's code has changed since."""

from pathlib import Path

from tests.engine_runs.graphs import PROJECT, Graphs
from tests.jobs.code.repositories import changed_since


def test_a_fork_runs_the_recorded_commit(graphs: Graphs, tmp_path: Path) -> None:
    folder, variables = changed_since(PROJECT, tmp_path, "graphs.py")
    graphs.variables |= variables
    request = graphs.request("fork", "fan", "fan", 2, state={"topic": "dogs"})
    ended = graphs.completed(request | {"folder": str(folder)})
    assert graphs.nodes() == ["end", "left", "right"]
    assert "the present code" not in ended.log

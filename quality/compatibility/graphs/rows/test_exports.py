"""Exported tests and notebooks repeat a thread with its recorded answers, and call no model and no tool."""

from pathlib import Path
from typing import Any

import pytest

from quality.compatibility.graphs.table import CELL, ROW
from tests.engine_runs.exported import exported, run_exported
from tests.engine_runs.graphs import NODES, PROJECT, WarmGraphs
from tests.engine_runs.sides import SqliteStore
from tests.imported import imported_location
from tests.langgraph.conftest import opened
from viewer.engines.recorded_calls import NotReproducible

AGENT, THREAD = "agents:both", "thread"
TURNS = [{"input": {"messages": [text]}} for text in ("Oslo and Rome", "Paris")]


@pytest.mark.parametrize("name", ["pytest", "notebook"])
def test_an_exported_run_is_repeated(
    name: str, db: None, graph_python: Path, warm_langgraph: WarmGraphs, tmp_path: Path, record_property: Any
) -> None:
    record_property(ROW, f"exported run of an agent with tools at once ({name})")
    side = SqliteStore(graph_python, tmp_path, warm_langgraph).recorded
    side.run_langgraph(AGENT, THREAD, TURNS, **{"async": True})
    side.forget()
    run = opened(imported_location(side.store), THREAD)
    if side.version < (0, 3):
        # A checkpoint of such an agent does not say that it is the last one.
        with pytest.raises(NotReproducible):
            exported(run, name, tmp_path, AGENT)
        record_property(CELL, "refused")
        return
    file = exported(run, name, tmp_path, AGENT)
    status, printed = run_exported(side.engine, PROJECT, file, NODES_FILE=str(side.folder / NODES))
    assert status == 0, printed
    assert side.nodes() == []

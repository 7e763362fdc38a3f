"""LangGraph's conformance suite: Forkline's saver passes it, and Forkline reads every store that it writes.

The suite also writes threads of which only a subgraph has checkpoints. No graph does that, and Forkline does
not list them.
"""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from quality.compatibility.graphs.rows import conformance_program
from tests.engine_runs.graphs import RUNNER, WarmGraphs, run_program
from tests.langgraph.conftest import opened
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location
from viewer.models import Run
from viewer.records.bodies import stored_contents

PROGRAM = Path(conformance_program.__file__)
# As many as version 0.0.2 of the suite has for what a graph needs of its saver.
TESTS = 53
STORED = """
    SELECT checkpoint_id FROM checkpoints
    WHERE thread_id IN (SELECT thread_id FROM checkpoints WHERE checkpoint_ns = '')
"""


@pytest.fixture
def validated(warm_langgraph: WarmGraphs, tmp_path: Path) -> tuple[dict[str, object], list[Path]]:
    """What the suite found, and the stores that it wrote."""
    printed = run_program(warm_langgraph.engine, tmp_path, PROGRAM, str(RUNNER.parent), str(tmp_path))
    return json.loads(printed.splitlines()[-1]), sorted(tmp_path.glob("*.sqlite"))


def test_the_saver_passes_the_conformance_suite_of_langgraph(
    validated: tuple[dict[str, object], list[Path]],
) -> None:
    assert validated[0] == {"passed": TESTS, "failures": []}


def test_the_stores_of_the_conformance_suite_are_read_whole(
    db: None, validated: tuple[dict[str, object], list[Path]]
) -> None:
    assert len(validated[1]) == len(conformance_program.CAPABILITIES)
    for path in validated[1]:
        with closing(sqlite3.connect(path)) as connection:
            stored = {str(row[0]) for row in connection.execute(STORED)}
        location = open_location(path)
        import_location(location)
        for run in Run.objects.filter(location=location, parent=None):
            opened(location, run.key)
        rows = [
            row
            for run in Run.objects.filter(location=location)
            for row in run.checkpoints.select_related("location")
        ]
        assert {row.checkpoint_id for row in rows} == stored and not location.problems.exists()
        contents: list[Any] = [stored_contents(row) for row in rows]
        assert {one.body["checkpoint"]["id"] for one in contents} == stored

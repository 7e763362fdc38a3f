"""Every row next to LangGraph itself passes on the demo's version, on a SQLite store.

``make matrix-langgraph`` runs them on each version, and on PostgreSQL.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from quality.compatibility.environments import ROOT
from quality.compatibility.graphs.__main__ import TESTS
from quality.compatibility.graphs.rows import test_conformance as conformance
from quality.compatibility.graphs.rows import test_interrupts_and_stores as interrupts
from quality.compatibility.graphs.rows.scenarios import SCENARIOS, Scenario
from quality.compatibility.graphs.rows.test_next_to_langgraph import (
    test_forkline_does_what_langgraph_does as does_what_langgraph_does,
)
from tests.engine_runs.graphs import WarmGraphs
from tests.engine_runs.sides import SqliteStore


@pytest.fixture
def store(graph_python: Path, warm_langgraph: WarmGraphs, tmp_path: Path) -> SqliteStore:
    return SqliteStore(graph_python, tmp_path, warm_langgraph)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[one.name for one in SCENARIOS])
def test_row_passes(scenario: Scenario, store: SqliteStore) -> None:
    does_what_langgraph_does(scenario, store, _noted)


def test_two_answers_to_one_interrupt(store: SqliteStore) -> None:
    interrupts.test_two_answers_to_one_interrupt(interrupts.copied(store, "graphs:approval"), store, _noted)


def test_several_interrupts_at_once(store: SqliteStore) -> None:
    interrupts.test_several_interrupts_at_once(store, _noted)


def test_an_interrupted_subgraph_with_its_state_edited(store: SqliteStore) -> None:
    interrupts.test_an_interrupted_subgraph_with_its_state_edited(store, _noted)


def test_the_command_collects_every_row_with_the_database_of_the_tests() -> None:
    # With several processes, that of pytest-django cannot be opened.
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--fixtures-per-test", *TESTS]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    of_rows = listed.partition(f"({Path(conformance.__file__).relative_to(ROOT)}:")[2]
    assert "django_db_setup -- tests/conftest.py" in of_rows


def _noted(name: str, value: object) -> None:
    """What a row notes for the table is not needed here."""

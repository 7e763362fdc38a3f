"""Both kinds of stores, and the processes of the interpreter that is tested."""

from itertools import count
from pathlib import Path

import pytest

from tests.conftest import (  # noqa: F401 - fixtures
    closed_data_folder,
    django_db_setup,
    empty_data_folder,
    graph_python,
    server_data,
    terminal,
    warm_langgraph,
    working_database,
)
from tests.engine_runs.graphs import WarmGraphs
from tests.engine_runs.sides import PostgresqlStore, SqliteStore, Store
from tests.langgraph.postgresql.conftest import server  # noqa: F401 - a fixture
from tests.langgraph.postgresql.server import Server

_numbers = count()


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def store(
    request: pytest.FixtureRequest,
    graph_python: Path,  # noqa: F811
    warm_langgraph: WarmGraphs,  # noqa: F811
    tmp_path: Path,
) -> Store:
    """An empty store of each kind."""
    if request.param == "SQLite":
        return SqliteStore(graph_python, tmp_path, warm_langgraph)
    started: Server = request.getfixturevalue("server")
    name = f"row_{next(_numbers)}"
    return PostgresqlStore(graph_python, tmp_path, warm_langgraph, started, name)

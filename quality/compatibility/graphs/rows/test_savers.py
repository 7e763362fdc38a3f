"""Savers of other databases as locations: what is read, and what a fork on a copy of the thread runs."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from quality.compatibility.graphs.rows import mariadb
from quality.compatibility.graphs.table import CELL, ROW
from tests.engine_runs.graphs import NODES, PROJECT
from tests.langgraph.conftest import opened
from tests.terminal import Terminal
from viewer.host.jobs import savers
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location
from viewer.models import Project
from viewer.records.bodies import stored_contents

SOURCES = {
    "DuckDB": """
import os, duckdb
from langgraph.checkpoint.duckdb import DuckDBSaver

def saver(read_only=True):
    return DuckDBSaver(duckdb.connect(os.environ["SAVER_STORE"], read_only=read_only))
""",
    "MariaDB": """
import os, pymysql
from langgraph.checkpoint.mysql.pymysql import PyMySQLSaver

def saver(read_only=True):
    server = {"unix_socket": os.environ["SAVER_STORE"], "user": "root", "autocommit": True}
    if not read_only:
        pymysql.connect(**server).cursor().execute("CREATE DATABASE threads")
    return PyMySQLSaver(pymysql.connect(**server, database="threads"))
""",
}
RECORD = """
import graphs, stored
saver = stored.saver(read_only=False)
saver.setup()
graph = graphs.fan_graph().compile(checkpointer=saver)
graph.invoke({"topic": "cats"}, {"configurable": {"thread_id": "fan"}})
"""
LIST = """
import json, stored
found = stored.saver().list(None)
rows = [(one.checkpoint["id"], one.metadata["step"], len(one.pending_writes)) for one in found]
print(json.dumps(sorted(rows)))
"""


@dataclass(frozen=True)
class Recorded:
    """A project whose saver has a thread that LangGraph ran to its end."""

    folder: Path
    python: Path
    environment: dict[str, str]

    def run(self, program: str) -> str:
        """What a program of the project prints."""
        command = [str(self.python), "-c", program]
        environment = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **self.environment}
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    def rows(self) -> Any:
        """The id, step and number of writes of each checkpoint, as the saver itself lists them."""
        return json.loads(self.run(LIST))


@pytest.fixture(params=list(SOURCES))
def recorded(
    request: pytest.FixtureRequest, graph_python: Path, tmp_path: Path, record_property: Any
) -> Iterator[Recorded | None]:
    """A project with a saver of each kind; None if there is none for the version of LangGraph."""
    record_property(ROW, f"the saver of another database is read and forked ({request.param})")
    folder = Path(shutil.copytree(PROJECT, tmp_path / "project"))
    (folder / "langgraph.json").write_text('{"graphs": {}, "checkpointer": {"path": "./stored.py:saver"}}')
    (folder / "stored.py").write_text(SOURCES[request.param])
    variables = {"NODES_FILE": str(tmp_path / NODES), "SAVER_STORE": str(tmp_path / "threads.duckdb")}
    found = Recorded(folder, graph_python, variables)
    if request.param == "DuckDB":
        package = "import importlib.util as found; print(found.find_spec('langgraph.checkpoint.duckdb'))"
        if found.run(package).strip() == "None":
            record_property(CELL, "no saver for it")
            yield None
            return
        found.run(RECORD)
        yield found
        return
    with mariadb.running() as socket:
        variables["SAVER_STORE"] = str(socket)
        found.run(RECORD)
        yield found


def test_a_saver_is_read_and_forked(
    recorded: Recorded | None, transactional_db: None, settings: Settings, terminal: Terminal, tmp_path: Path
) -> None:
    if recorded is None:
        return
    settings.PREWARM = False
    before, file = recorded.rows(), tmp_path / "project.env"
    file.write_text("".join(f"{name}={value}\n" for name, value in recorded.environment.items()))
    Project.objects.create(
        folder=str(recorded.folder),
        interpreter=str(recorded.python),
        environment_file=str(file),
        entry_points=["graphs:fan"],
    ).confirm(None)
    location = open_location(f"saver:{recorded.folder}")
    try:
        assert import_location(location).read_error is None
        listed = opened(location, "fan").checkpoints.order_by("checkpoint_id")
        assert [[row.checkpoint_id, row.step] for row in listed] == [row[:2] for row in before]
        assert stored_contents(listed[len(listed) - 1]).channels["notes"][-1] == "end on cats"  # type: ignore[attr-defined]
        target = f"{location.path}#fan/{listed[2].checkpoint_id}"
        changes = ("--state", json.dumps({"topic": "dogs"}), "--branch", "dogs")
        terminal.succeeded("fork", target, "--entrypoint", "graphs:fan", *changes)
        forked = opened(location, "fan").checkpoints.filter(branch="dogs").order_by("checkpoint_id").last()
        assert forked is not None and forked.is_scratch
        assert stored_contents(forked).channels["notes"][-1] == "end on dogs"  # type: ignore[attr-defined]
    finally:
        savers.end_savers()
    assert recorded.rows() == before

"""Two copies of one recorded thread: Forkline works on one, LangGraph itself on the other."""

import json
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from psycopg import sql

from tests.engine_runs.graphs import NODES, PROJECT, STORE, Graphs, WarmGraphs, run_program
from tests.langgraph.postgresql.server import OWNER, Server

SENT = "sent"
BY_LANGGRAPH = PROJECT / "by_langgraph.py"
# The name of the location in PostgreSQL.
DATABASE = "postgresql:matrix"
Action = dict[str, Any]


@dataclass(frozen=True)
class Done:
    """What a side did: the nodes that ran, what models were sent, the result, and what would run next."""

    nodes: list[str]
    sent: list[str]
    result: Any
    next: list[str]


class Side(Graphs):
    """One copy, in a SQLite file."""

    def __init__(self, python: Path, folder: Path, warm: WarmGraphs) -> None:
        super().__init__(python, folder, warm)
        self.variables["SENT_FILE"] = str(folder / SENT)

    @property
    def address(self) -> str:
        """The store, as LangGraph's own program opens it."""
        return str(self.store)

    def rows(self, thread: str = "") -> list[str]:
        """Every row of the store, or those of a thread."""
        with closing(sqlite3.connect(self.store)) as connection:
            return sorted(
                f"{table} {row}"
                for table in ("checkpoints", "writes")
                for row in connection.execute(f"SELECT * FROM {table}")
                if not thread or row[0] == thread
            )

    def run_langgraph(
        self, entry_point: str, thread: str, actions: Sequence[Action], **options: Any
    ) -> dict[str, Any]:
        """Do this with LangGraph itself. Return the result and the next nodes."""
        arguments = [self.address, entry_point, thread, json.dumps(actions), json.dumps(options)]
        printed = run_program(self.engine, self.folder, BY_LANGGRAPH, *arguments, **self.variables)
        found: dict[str, Any] = json.loads(printed.splitlines()[-1])
        return found

    def sent(self) -> list[str]:
        """Return what models were sent since the last call, in alphabetical order: nodes run side by side."""
        path = self.folder / SENT
        found = sorted(path.read_text().splitlines()) if path.exists() else []
        path.unlink(missing_ok=True)
        return found

    def forget(self) -> None:
        """Forget what ran so far."""
        self.nodes(), self.sent()


class DatabaseSide(Side):
    """One copy, in a database of PostgreSQL."""

    def __init__(self, python: Path, folder: Path, warm: WarmGraphs, server: Server, name: str) -> None:
        super().__init__(python, folder, warm)
        self._server, self._name = server, name
        connected = {"conninfo": server.connection(name, OWNER), "environment": {}}
        self.variables["FORKLINE_STORE"] = json.dumps(connected)

    @property
    def address(self) -> str:
        return self._server.connection(self._name, OWNER)

    @property
    def location(self) -> dict[str, str]:
        return {"path": DATABASE, "store_kind": "postgresql"}

    def checkpoints(self, thread: str, namespace: str = "") -> list[str]:
        query = "SELECT checkpoint_id FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = %s ORDER BY 1"
        with self._server.connected(self._name) as connection:
            return [str(row[0]) for row in connection.execute(query, (thread, namespace))]

    def namespace(self, thread: str) -> str:
        query = "SELECT DISTINCT checkpoint_ns FROM checkpoints WHERE thread_id = %s AND checkpoint_ns <> ''"
        with self._server.connected(self._name) as connection:
            found = connection.execute(query, (thread,)).fetchone()
            assert found
            return str(found[0])

    def rows(self, thread: str = "") -> list[str]:
        tables = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
        with self._server.connected(self._name) as connection:
            return sorted(
                f"{table} {row[1]}"
                for table in tables
                for row in connection.execute(
                    sql.SQL("SELECT thread_id, t::text FROM {} t").format(sql.Identifier(table))
                )
                if not thread or row[0] == thread
            )


class Store(Protocol):
    """A kind of store: its name, and copies of what was recorded in it."""

    name: str
    recorded: Side

    def copy(self, name: str) -> Side:
        """A copy of the recorded store."""


class SqliteStore:
    """SQLite files in a folder."""

    name = "SQLite"

    def __init__(self, python: Path, folder: Path, warm: WarmGraphs) -> None:
        self._python, self._folder, self._warm = python, folder, warm
        (folder / "recorded").mkdir()
        self.recorded = Side(python, folder / "recorded", warm)

    def copy(self, name: str) -> Side:
        folder = self._folder / name
        shutil.copytree(self._folder / "recorded", folder, ignore=shutil.ignore_patterns(NODES, SENT))
        return Side(self._python, folder, self._warm)


class PostgresqlStore:
    """Databases of a server, which are copied by it."""

    name = "PostgreSQL"

    def __init__(self, python: Path, folder: Path, warm: WarmGraphs, server: Server, name: str) -> None:
        self._python, self._folder, self._warm = python, folder, warm
        self._server, self._name = server, name
        (folder / "recorded").mkdir()
        self._create("recorded")
        self.recorded = self._side("recorded")

    def copy(self, name: str) -> Side:
        ignored = shutil.ignore_patterns(NODES, SENT, f"{STORE}*")
        shutil.copytree(self._folder / "recorded", self._folder / name, ignore=ignored)
        self._create(name, f" TEMPLATE {self._name}_recorded")
        return self._side(name)

    def _create(self, name: str, template: str = "") -> None:
        with self._server.connected("postgres") as connection:
            connection.execute(sql.SQL(f"CREATE DATABASE {self._name}_{name}{template}"))

    def _side(self, name: str) -> Side:
        folder = self._folder / name
        return DatabaseSide(self._python, folder, self._warm, self._server, f"{self._name}_{name}")

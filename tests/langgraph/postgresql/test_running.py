"""Threads in PostgreSQL are forked, answered, resumed, continued and published."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone
from pytest_django import Settings

from tests.engine_runs.graphs import FAILING, NODES, PROJECT, TICKET, WarmGraphs, record
from tests.engine_runs.prewarmed import WarmPython
from tests.engine_runs.prewarmed_jobs import PrewarmedJobs
from tests.file_bytes import bytes_of
from tests.jobs.isolation.conftest import isolate
from tests.langgraph.launching.test_running import address
from tests.langgraph.postgresql.server import OWNER, PASSWORD, PORT, READER, WRITER, Server
from tests.terminal import Terminal
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location
from viewer.host.locations.indexing import import_run
from viewer.models import Checkpoint, Job, Location, Project, Run

TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
_numbers = count()


class Database:
    """A database that LangGraph has written threads to, and its location."""

    def __init__(
        self, server: Server, name: str, engine: WarmPython, folder: Path, saver: str, jobs: PrewarmedJobs
    ) -> None:
        self.server, self.name, self.engine, self.folder, self.jobs = server, name, engine, folder, jobs
        self.store = f"{saver} {server.connection(name, OWNER)}".strip()

    def record(self, graph: str, thread: str, given: Any = None) -> None:
        record(self.engine, self.folder, graph, thread, given or {"topic": "cats"}, self.store)

    def rows(self, without: str = "") -> list[Any]:
        """Every row of the tables, or those of the other threads."""
        with self.server.connected(self.name) as connection:
            return sorted(
                (table, row[0])
                for table in TABLES
                for row in connection.execute(
                    f"SELECT t::text FROM {table} t WHERE thread_id <> %s", (without,)
                )
            )

    def location(self) -> Location:
        location = open_location("postgresql:support")
        location.project = Project.objects.get()
        location.save()
        self.jobs.serve(location.project, Path(settings.DATA_DIR))
        import_location(location)
        import_location(location)
        return location

    def ran(self) -> list[str]:
        path = self.folder / NODES
        found = sorted(path.read_text().split()) if path.exists() else []
        path.unlink(missing_ok=True)
        return found


Made = Callable[..., Database]


@pytest.fixture
def made(
    server: Server,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    graph_python: Path,
    warm_langgraph: WarmGraphs,
    prewarmed_jobs: PrewarmedJobs,
    transactional_db: None,
    tmp_path: Path,
) -> Made:
    """Return a function that makes a database with threads of these graphs, and a role for Forkline."""

    def make(*threads: tuple[str, str], saver: str = "", role: str = WRITER) -> Database:
        name = f"running_{next(_numbers)}"
        with server.connected("postgres") as connection:
            connection.execute(f"CREATE DATABASE {name}")
        database = Database(server, name, warm_langgraph.engine, tmp_path, saver, prewarmed_jobs)
        for graph, thread in threads:
            failing = tmp_path / f"fail-{FAILING.get(thread)}"
            failing.touch()
            database.record(graph, thread, {"topic": "cats", "ticket": TICKET})
            failing.unlink()
        database.ran()
        rights = "SELECT" if role == READER else "SELECT, INSERT, UPDATE, DELETE"
        with server.connected(name) as connection:
            connection.execute(f"GRANT {rights} ON {', '.join(TABLES)} TO {role}")
        settings.POSTGRESQL_LOCATIONS = {"support": server.connection(name, role)}
        settings.PREWARM = True
        monkeypatch.setenv("PGPASSWORD", PASSWORD)
        confirm_project(graph_python, tmp_path)
        return database

    return make


def confirm_project(python: Path, folder: Path) -> None:
    """Confirm the project of the graphs, whose nodes are recorded in this folder."""
    environment = folder / "project.env"
    environment.write_text(f"NODES_FILE={folder / NODES}\n")
    Project.objects.create(
        folder=str(PROJECT),
        interpreter=str(python),
        environment_file=str(environment),
        entry_points=["graphs:fan", "graphs:approval"],
        confirmed_at=timezone.now(),
    )


def rows(location: Location, thread: str) -> list[Checkpoint]:
    """The checkpoints of a thread, oldest first."""
    import_location(location)
    run = Run.objects.select_related("location").get(location=location, key=thread, parent=None)
    import_run(run)
    return list(run.checkpoints.select_related("location", "run", "parent").order_by("checkpoint_id"))


FAN = ("--entrypoint", "graphs:fan")
DOGS = ("--branch", "dogs", "--state", '{"topic": "dogs"}')


@pytest.mark.parametrize("role", [READER, WRITER])
def test_a_fork_needs_select_only_and_changes_no_row(made: Made, terminal: Terminal, role: str) -> None:
    database = made(("fan", "fan"), role=role)
    location, before = database.location(), database.rows()
    terminal.succeeded("fork", address(rows(location, "fan")[2]), *FAN, *DOGS)
    assert database.ran() == ["end", "left", "right"] and database.rows() == before
    forked = [row for row in rows(location, "fan") if row.is_scratch]
    assert len(forked) == 3 and forked[0].parent == rows(location, "fan")[2]


def test_resuming_runs_only_the_failed_node(made: Made, terminal: Terminal) -> None:
    database = made(("fan", "failed"), ("fan", "fan"))
    location, others = database.location(), database.rows(without="failed")
    done = terminal.succeeded("resume", address(rows(location, "failed")[-1]), *FAN)
    assert database.ran() == ["end", "right"] and database.rows(without="failed") == others
    newest = [row.checkpoint_id for row in rows(location, "failed")[-2:]]
    assert [one["id"] for one in done["checkpoints"]] == newest


@pytest.mark.parametrize("saver", ["", "shallow"], ids=["ordinary", "shallow"])
def test_an_answer_continues_the_thread_and_a_fork_leaves_it(
    made: Made, terminal: Terminal, saver: str
) -> None:
    database = made(("approval", "approval"), saver=saver)
    location, before = database.location(), database.rows()
    head, entry_point = address(rows(location, "approval")[-1]), ("--entrypoint", "graphs:approval")
    terminal.succeeded("fork", head, *entry_point, "--branch", "no", "--answer", "no")
    assert database.ran() == ["approve", "drop"] and database.rows() == before
    terminal.succeeded("resume", head, *entry_point, "--answer", "yes")
    assert database.ran() == ["approve", "publish"]


def test_a_new_turn_and_a_new_thread_run_in_the_database(made: Made, terminal: Terminal) -> None:
    database = made(("fan", "fan"))
    location, before = database.location(), database.rows()
    mice = (*FAN, "--input", 'topic="mice"')
    terminal.succeeded("run", "postgresql:support", *mice, "--thread", "fan")
    assert rows(location, "fan")[-1].turn == 2
    terminal.succeeded("run", "postgresql:support", *mice)
    assert location.runs.count() == 2 and set(before) <= set(database.rows())


def test_an_async_graph_continues_a_thread_of_the_async_saver(made: Made, terminal: Terminal) -> None:
    database = made(("awaited", "awaited"))
    location = database.location()
    given = ("--entrypoint", "graphs:awaited", "--input", 'topic="mice"', "--thread", "awaited")
    terminal.succeeded("run", "postgresql:support", *given)
    assert rows(location, "awaited")[-1].turn == 2


@pytest.mark.parametrize("into", ["new-thread", "thread"])
def test_a_fork_is_published_and_langgraph_continues_it(made: Made, terminal: Terminal, into: str) -> None:
    database = made(("fan", "fan"), ("approval", "approval"))
    location, before = database.location(), database.rows()
    job = terminal.succeeded("fork", address(rows(location, "fan")[2]), *FAN, *DOGS)["job"]
    row = [row for row in rows(location, "fan") if row.is_scratch][-1]
    for _twice in range(2 if into == "new-thread" else 1):
        terminal.succeeded("publish", address(row), "--into", into)
    assert set(before) <= set(database.rows())
    thread = job if into == "new-thread" else "fan"
    assert len(rows(location, thread)) == (4 if into == "new-thread" else 8)
    others = database.rows(without=thread)
    database.record("fan", thread, {"topic": "mice"})
    assert database.rows(without=thread) == others
    last = json.dumps(terminal.document("info", address(rows(location, thread)[-1])))
    assert "end on dogs" in last and "end on mice" in last


def test_a_role_that_may_not_write_publishes_nothing(made: Made, terminal: Terminal) -> None:
    database = made(("fan", "fan"), role=READER)
    location, before = database.location(), database.rows()
    terminal.succeeded("fork", address(rows(location, "fan")[2]), *FAN, *DOGS)
    row = [row for row in rows(location, "fan") if row.is_scratch][-1]
    assert "cannot be written to" in terminal.refused("publish", address(row), "--wait")["error"]
    assert database.rows() == before


def test_the_password_is_in_no_file_and_no_row(made: Made, terminal: Terminal, settings: Settings) -> None:
    database = made(("approval", "approval"))
    location = database.location()
    entry_point = ("--entrypoint", "graphs:approval", "--branch", "no", "--answer", "no")
    terminal.succeeded("fork", address(rows(location, "approval")[-1]), *entry_point)
    job = Job.objects.get()
    assert PASSWORD not in json.dumps([job.request, job.result, job.log_end, list(job.events.values("data"))])
    # The sockets of prewarmed processes hold nothing.
    files = bytes_of(path for path in Path(settings.DATA_DIR).rglob("*") if path.is_file())
    assert PASSWORD.encode() not in files


@contextmanager
def on_localhost(server: Server) -> Iterator[int]:
    """A port of this machine that leads to the server's socket."""
    with socket.create_server(("localhost", 0)) as listener:

        def copy(source: socket.socket, target: socket.socket) -> None:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _address = listener.accept()
                    opened = socket.socket(socket.AF_UNIX)
                    opened.connect(str(server.folder / f".s.PGSQL.{PORT}"))
                    for pair in ((client, opened), (opened, client)):
                        Thread(target=copy, args=pair, daemon=True).start()

        Thread(target=accept, daemon=True).start()
        yield int(listener.getsockname()[1])


def test_a_run_with_allowed_hosts_reaches_its_database(
    made: Made, terminal: Terminal, settings: Settings, tmp_path: Path
) -> None:
    database = made(("fan", "fan"))
    location, before = database.location(), database.rows()
    project = Project.objects.get()
    base: dict[str, object] = {"launcher": "bubblewrap", "network": "hosts", "write": [str(tmp_path)]}
    fork = ("fork", address(rows(location, "fan")[2]), *FAN, *DOGS)
    isolate(project, **base, allow=["api.openai.com:443"])
    assert "without a host" in terminal.refused(*fork, "--wait")["error"]
    with on_localhost(database.server) as port:
        connection = f"host=localhost port={port} dbname={database.name} user={WRITER}"
        settings.POSTGRESQL_LOCATIONS = {"support": connection}
        assert f"Allow localhost:{port} on" in terminal.refused(*fork, "--branch", "b", "--wait")["error"]
        isolate(project, **base, allow=[f"localhost:{port}"])
        done = terminal.succeeded(*fork, "--branch", "c")
    assert database.ran() == ["end", "left", "right"] and database.rows() == before
    assert done["isolation"]["hosts"] == [f"localhost:{port}"]

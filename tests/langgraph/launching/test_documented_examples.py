"""The examples of LangGraph's documentation do the same through Forkline's commands.

Pages below docs.langchain.com/oss/python: langgraph/use-time-travel (replay, fork, ``as_node``, interrupts,
several interrupts, both kinds of subgraphs), langgraph/interrupts (approve, review, tools, validation,
schema, several in one node, subgraphs as functions, static breakpoints), langgraph/checkpointers and
langgraph/persistence (reducers) and langchain/human-in-the-loop (review of tool calls). The graphs are in
documented.py of the tests' project. Several interrupts at once, pending writes and durability are rows of
tests/compatibility/test_graph_rows.py, and a further turn is in test_running.py.
"""

import json
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from tests.engine_runs.graphs import NODES, PROJECT, WarmGraphs
from tests.engine_runs.prewarmed_jobs import PrewarmedJobs
from tests.engine_runs.sides import Side
from tests.langgraph.launching.documented_examples import EXAMPLES, Action, Example
from tests.langgraph.launching.test_running import address, rows
from tests.terminal import Terminal
from tests.waiting import wait_until
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location
from viewer.launching.start import send_answer
from viewer.models import Checkpoint, Location, Project, Question

THREAD = "thread"
# For a question to be asked on a busy machine.
MAX_SECONDS = 300
Copies = tuple[Side, Side]


@pytest.fixture
def recorded(
    graph_python: Path, warm_langgraph: WarmGraphs, tmp_path: Path
) -> Callable[[str, Sequence[Action]], Copies]:
    """Return a function that has LangGraph record a thread, and makes two copies of it."""

    def record(graph: str, actions: Sequence[Action]) -> Copies:
        (tmp_path / "ours").mkdir()
        ours = Side(graph_python, tmp_path / "ours", warm_langgraph)
        ours.run_langgraph(graph, THREAD, actions)
        ours.forget()
        shutil.copytree(tmp_path / "ours", tmp_path / "theirs")
        return ours, Side(graph_python, tmp_path / "theirs", warm_langgraph)

    return record


@pytest.fixture
def located(
    transactional_db: None, prewarmed_jobs: PrewarmedJobs, settings: Settings
) -> Callable[[Side, str], Location]:
    """Return a function that adds a copy as a location with its confirmed project."""
    settings.PREWARM = True

    def add(side: Side, graph: str) -> Location:
        variables = {"NODES_FILE": str(side.folder / NODES), **side.variables}
        environment = side.folder.with_suffix(".env")
        environment.write_text("".join(f"{name}={text}\n" for name, text in variables.items()))
        location = open_location(side.store)
        location.project = Project.objects.create(
            folder=str(PROJECT),
            interpreter=str(side.python),
            environment_file=str(environment),
            entry_points=[graph],
            confirmed_at=timezone.now(),
        )
        location.save()
        prewarmed_jobs.serve(location.project, Path(settings.DATA_DIR))
        import_location(location)
        return location

    return add


@contextmanager
def typed(answers: Sequence[str]) -> Iterator[None]:
    """Answer the questions that are asked meanwhile, as a person does in the inbox."""
    ended = threading.Event()

    def give() -> None:
        for number, text in enumerate(answers, 1):
            waiting = Question.objects.waiting().filter(number=number)
            wait_until(lambda found=waiting: ended.is_set() or found.exists(), MAX_SECONDS)  # type: ignore[misc]
            if not ended.is_set():
                send_answer(waiting.get(), text, None)
        connection.close()

    person = threading.Thread(target=give)
    person.start()
    try:
        yield
    finally:
        ended.set()
        person.join()


def chosen(location: Location, side: Side, example: Example) -> Checkpoint:
    """The checkpoint that the command names."""
    found = rows(location, THREAD)
    if not example.inner:
        return found[example.at]
    namespace = side.namespace(THREAD)
    inner = Checkpoint.objects.filter(location=location, run__namespace=namespace)
    return list(inner.select_related("location", "run").order_by("checkpoint_id"))[example.at]


def plain(result: str) -> Any:
    """A result as JSON if it is that, else as text."""
    try:
        return json.loads(result)
    except ValueError:
        return result


@pytest.mark.parametrize("example", EXAMPLES, ids=[one.name for one in EXAMPLES])
def test_a_documented_example_does_the_same(
    example: Example,
    recorded: Callable[[str, Sequence[Action]], Copies],
    located: Callable[[Side, str], Location],
    terminal: Terminal,
) -> None:
    graph = f"documented:{example.graph}"
    ours, theirs = recorded(graph, example.recording)
    before, location = ours.rows(), located(ours, graph)
    name, *arguments = example.command
    row = chosen(location, ours, example)
    with typed(example.answers):
        done = terminal.succeeded(name, address(row), *arguments)
    first = {} if example.command[0] == "resume" or example.inner else {"at": row.checkpoint_id}
    expected = theirs.run_langgraph(graph, THREAD, [first | example.actions[0], *example.actions[1:]])
    assert plain(done["result"]) == expected["result"]
    assert ours.sent() == theirs.sent()
    assert ours.nodes() == list(example.nodes) == theirs.nodes()
    if name == "fork":
        assert ours.rows() == before

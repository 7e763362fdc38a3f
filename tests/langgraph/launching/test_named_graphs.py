"""``--graph NAME``: the entry point of a run by the name that ``langgraph.json`` gives it."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management.base import CommandError
from django.utils import timezone

from tests.engine_runs.graphs import PROJECT
from tests.engine_runs.runs import PRESS
from tests.langgraph.conftest import opened
from tests.terminal import Terminal
from viewer.models import Checkpoint, Job, Location, Project

NAMED = ("--project", str(PROJECT), "--python", sys.executable)


@pytest.fixture
def thread(threads: Callable[[str], Location]) -> Checkpoint:
    """Return the head of a thread. The project of its location is confirmed and lists no entry points."""
    location = threads("lg12")
    location.project = Project.objects.create(
        folder=str(PROJECT), interpreter=sys.executable, confirmed_at=timezone.now()
    )
    location.save()
    return opened(location, "fan-failed").checkpoints.latest("row")


def address(row: Checkpoint) -> str:
    return f"{row.location.path}#{row.run.key}/{row.checkpoint_id}"


@pytest.mark.parametrize("command", ["fork", "resume"])
def test_a_fork_and_a_resume_use_the_entry_point_of_that_name(
    terminal: Terminal, thread: Checkpoint, command: str
) -> None:
    terminal.document(command, address(thread), "--graph", "made")
    job = Job.objects.get()
    assert (job.kind, job.request["entry_point"]) == (command, "graphs:make_graph")


def test_a_run_uses_the_entry_point_of_that_name(terminal: Terminal, thread: Checkpoint) -> None:
    terminal.document("run", thread.location.path, "--graph", "agent", "--input", "messages=[]")
    assert Job.objects.get().request["entry_point"] == "agents:agent"


def test_the_first_run_at_a_new_location_has_the_engine_that_names_it(
    terminal: Terminal, db: None, tmp_path: Path
) -> None:
    terminal.document("run", tmp_path / "new.db", *NAMED, "--graph", "fan", "--input", "topic=mice")
    job = Job.objects.get()
    assert (job.location.engine, job.request["entry_point"]) == ("langgraph", "graphs:fan")


@pytest.mark.parametrize("command", ["fork", "resume", "run"])
def test_an_unknown_name_is_refused_with_the_names_there_are(
    terminal: Terminal, thread: Checkpoint, command: str
) -> None:
    target = thread.location.path if command == "run" else address(thread)
    with pytest.raises(CommandError, match=r"has no graph fang\. Its graphs: fan, approval, nested"):
        terminal.document(command, target, "--graph", "fang")
    assert not Job.objects.exists()


def test_a_project_that_names_no_graphs_has_none(terminal: Terminal, db: None, tmp_path: Path) -> None:
    project = ("--project", str(PRESS), "--python", sys.executable)
    with pytest.raises(CommandError, match=r"has no graph fan\. Its graphs: -"):
        terminal.document("run", tmp_path / "new.db", *project, "--graph", "fan")
    assert not Job.objects.exists()


@pytest.mark.parametrize("command", ["fork", "resume"])
def test_a_refusal_without_a_project_names_the_option(
    terminal: Terminal, threads: Callable[[str], Location], command: str
) -> None:
    row = opened(threads("lg12"), "fan-failed").checkpoints.latest("row")
    with pytest.raises(CommandError, match="--project"):
        terminal.document(command, address(row))
    refused = terminal.refused(command, address(row), "--python", sys.executable)
    assert "--project" in refused["hints"][0] and "--graph" in refused["hints"][0]
    assert not Job.objects.exists()


def test_a_name_and_an_entry_point_exclude_each_other(terminal: Terminal, thread: Checkpoint) -> None:
    with pytest.raises((CommandError, SystemExit)):
        terminal.document("fork", address(thread), "--graph", "fan", "--entrypoint", "graphs:fan")

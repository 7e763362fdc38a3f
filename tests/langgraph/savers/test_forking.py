"""A checkpoint of a saver is forked on a copy of its thread, and the saver's store stays as it was."""

import json
import shutil
from pathlib import Path

import pytest
from pytest_django import Settings

from tests.engine_runs.graphs import NODES, PROJECT, STORE, digests
from tests.langgraph.conftest import opened
from tests.langgraph.savers.conftest import SQLITE
from tests.terminal import Terminal
from viewer.host.locations.adding import open_location, write_target_at, write_target_of
from viewer.host.locations.importing import import_location
from viewer.host_requests import UnknownLocation
from viewer.models import Job, Location, Project
from viewer.presentation.share_links import paths_of, without_paths
from viewer.records.bodies import stored_contents


@pytest.fixture
def threads(
    recorded_threads: Path,
    graph_python: Path,
    transactional_db: None,
    settings: Settings,
    tmp_path: Path,
) -> Location:
    """The saver of a confirmed project, on a store that LangGraph wrote."""
    store = Path(shutil.copytree(recorded_threads, tmp_path / "threads"))
    folder = Path(shutil.copytree(PROJECT, tmp_path / "project"))
    (folder / "store.py").write_text(SQLITE.format(database=store / STORE))
    environment = tmp_path / "project.env"
    environment.write_text(f"NODES_FILE={store / NODES}\n")
    Project.objects.create(
        folder=str(folder),
        interpreter=str(graph_python),
        environment_file=str(environment),
        entry_points=["graphs:fan"],
    ).confirm(None)
    settings.PREWARM = False
    location = open_location(f"saver:{folder}:store:saver")
    assert import_location(location).read_error is None
    return location


def test_a_fork_runs_on_a_copy(threads: Location, terminal: Terminal, tmp_path: Path) -> None:
    before = digests(tmp_path / "threads")
    run = opened(threads, "fan")
    start = run.checkpoints.order_by("checkpoint_id")[2]
    target = f"{threads.path}#fan/{start.checkpoint_id}"
    arguments = ("--state", json.dumps({"topic": "dogs"}), "--branch", "dogs")
    terminal.succeeded("fork", target, "--entrypoint", "graphs:fan", *arguments)
    forked = [row for row in opened(threads, "fan").checkpoints.order_by("checkpoint_id") if row.is_scratch]
    assert {row.branch for row in forked} == {"dogs"} and forked[0].parent == start
    assert stored_contents(forked[-1]).channels["notes"][-1] == "end on dogs"  # type: ignore[attr-defined]
    assert digests(tmp_path / "threads") == before


def test_a_thread_is_not_resumed(threads: Location, terminal: Terminal) -> None:
    last = opened(threads, "fan").checkpoints.order_by("checkpoint_id").last()
    assert last is not None
    refused = terminal.refused(
        "resume", f"{threads.path}#fan/{last.checkpoint_id}", "--entrypoint", "graphs:fan"
    )
    assert "only read" in refused["error"]
    assert not Job.objects.exists()


def test_no_run_writes_to_a_saver(threads: Location) -> None:
    project = threads.project
    assert project is not None
    with pytest.raises(UnknownLocation):
        write_target_of(threads, project)
    with pytest.raises(UnknownLocation):
        write_target_at(threads.path, project)
    assert not Job.objects.exists()


def test_a_path_of_the_saver_is_hidden_on_shared_pages(threads: Location) -> None:
    assert without_paths(threads.path, paths_of([threads])) == "[path]"

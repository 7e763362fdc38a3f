"""Forks of a process that has imported CrewAI run like new processes."""

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings
from django.utils import timezone
from pytest_django import DjangoDbBlocker

from tests.engine_runs.checkpoints import after_task, crew_after, is_chain, tasks_called, written
from tests.engine_runs.model import TestModel
from tests.engine_runs.runs import KEY, PRESS, request_for
from tests.jobs.prewarm.test_prewarmed_runners import memory_of
from tests.runners.conftest import Engine
from tests.waiting import exit_status, wait_until
from viewer.engines.plan import Edits
from viewer.host.jobs import prewarm
from viewer.host.jobs.files import JobStorage
from viewer.host.jobs.prewarm import PrewarmedProcess, PrewarmPool
from viewer.host.jobs.processes import PrewarmedRunner, RunnerProcess
from viewer.host.jobs.spool import REQUEST, read_events
from viewer.host.jobs.starting import start_runner
from viewer.models import Project

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def project(
    engine_python: Path, one_server: TestModel, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Project]:
    """Return a project with prewarmed jobs and a key in its environment file."""
    folder = tmp_path_factory.mktemp("prewarm")
    (folder / "data").mkdir()
    file = folder / "keys.env"
    file.write_text(f"OPENAI_API_KEY={KEY}\nOPENAI_BASE_URL={one_server.url}\n")
    with override_settings(PREWARM=True, DATA_DIR=folder / "data"):
        yield Project(
            pk=1,
            folder=str(PRESS),
            interpreter=str(engine_python),
            environment_file=str(file),
            confirmed_at=timezone.now(),
        )


@pytest.fixture(scope="module")
def waiting(
    project: Project, django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[PrewarmedProcess]:
    """Return the prewarmed process of the project once it waits."""
    state = PrewarmPool()
    with django_db_blocker.unblock():
        prewarm.start(state, project)
    (one,) = state.processes.values()
    wait_until(lambda: "Waiting." in one.log.read_text() or one.process.poll() is not None, 90)
    assert one.process.poll() is None, one.log.read_text()
    yield one
    prewarm.end_all(state)
    one.process.kill()
    one.process.wait()


def started(folder: Path, project: Project, request: dict[str, Any]) -> RunnerProcess:
    folder.mkdir(parents=True)
    (folder / REQUEST).write_text(json.dumps(request))
    return start_runner(JobStorage(folder), project)[0]


def lines_of(folder: Path) -> list[tuple[str, str]]:
    """Return the events of a run, without what differs between runs."""
    lines, _ = read_events(folder, 0)
    return [(line["kind"], str(line["data"].get("output", line["data"].get("action", "")))) for line in lines]


def test_two_prewarmed_runs_equal_cold_ones_and_leave_no_key_behind(
    waiting: PrewarmedProcess, project: Project, engine: Engine, stores: Path
) -> None:
    location, start, before = crew_after(stores, 2)
    resume = request_for(start, location, kind="resume")
    fork = request_for(
        start, location, edits=Edits(inputs={"topic": "tea"}), entry_point="press_crew:make_crew"
    )
    folders = [engine.job(), engine.job()]
    with ThreadPoolExecutor(2) as pool:
        children = list(pool.map(started, folders, (project, project), (resume, fork)))
    assert all(isinstance(child, PrewarmedRunner) for child in children)
    assert [exit_status(child) for child in children] == [0, 0], [lines_of(folder)[-1] for folder in folders]
    assert sorted(tasks_called(engine.model)) == ["Title", "Title", "Write", "Write"]
    assert set(engine.model.keys) == {f"Bearer {KEY}"}
    new = written(location, before)
    for branch in ("main", "try-it"):
        assert is_chain(start.id, [saved for saved in new if saved.branch == branch])
    memory = memory_of(waiting.process.pid)
    assert b"crewai.crew" in memory
    assert KEY.encode() not in memory

    # At the same time as a new process, on the same checkpoint.
    warm_prompts = sorted(engine.model.prompts())
    engine.model.reset()
    cold = engine.run(request_for(start, location, kind="resume"))
    assert cold.status == 0
    assert set(engine.model.prompts()) <= set(warm_prompts)
    assert [line["kind"] for line in cold.lines] == [kind for kind, _ in lines_of(folders[0])]


def test_an_interrupted_prewarmed_run_ends_its_spool_and_the_waiting_process_continues(
    waiting: PrewarmedProcess, project: Project, engine: Engine, stores: Path
) -> None:
    location = stores / "crew"
    request = request_for(after_task(location, 2), location, kind="resume")
    engine.model.gate.clear()
    folder = engine.job()
    child = started(folder, project, request)
    engine.model.wait_for(1)
    os.killpg(child.pid, signal.SIGINT)
    assert exit_status(child) == 130
    assert read_events(folder, 0)[0][-1]["data"]["status"] == "cancelled"
    assert waiting.process.poll() is None

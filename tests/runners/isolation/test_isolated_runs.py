"""Forks and resumes of a real engine in a sandbox are those of a plain process."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import override_settings
from django.utils import timezone

from tests.engine_runs.checkpoints import after_task, crew_after, is_chain, tasks_called, written
from tests.engine_runs.model import TestModel
from tests.engine_runs.runs import KEY, PRESS, request_for
from tests.jobs.isolation.conftest import noted
from tests.runners.conftest import Engine
from tests.waiting import exit_status
from viewer.engines.plan import Edits
from viewer.host.jobs.files import JobStorage
from viewer.host.jobs.processes import RunnerProcess
from viewer.host.jobs.spool import REQUEST, read_events
from viewer.host.jobs.starting import start_runner
from viewer.models import Project

pytestmark = pytest.mark.django_db
LIMITS = {"memory_mb": 4000, "cpu_seconds": 300, "processes": 400, "open_files": 1000, "wall_seconds": 300}


@pytest.fixture(params=["process", "landlock", "bubblewrap", "allowed hosts"])
def project(
    request: pytest.FixtureRequest, engine_python: Path, one_server: TestModel, tmp_path: Path
) -> Iterator[Project]:
    """A project with a key in its environment file, whose runs are isolated."""
    (tmp_path / "data").mkdir()
    file = tmp_path / "keys.env"
    file.write_text(f"OPENAI_API_KEY={KEY}\nOPENAI_BASE_URL={one_server.url}\n")
    # Engines look for the file above their packages, which are in the demo project.
    further: dict[str, Any] = (
        {} if request.param == "process" else {"read": [str(engine_python.parents[2] / ".env")]}
    )
    launcher = request.param
    if launcher == "allowed hosts":
        # The model of the tests is on this machine.
        port = urlsplit(one_server.url).port
        launcher, further = "bubblewrap", {**further, "network": "hosts", "allow": [f"127.0.0.1:{port}"]}
    with override_settings(PREWARM=True, DATA_DIR=tmp_path / "data"):
        found = Project(
            pk=1,
            folder=str(PRESS),
            interpreter=str(engine_python),
            environment_file=str(file),
            isolation={"launcher": launcher, **LIMITS, **further},
            confirmed_at=timezone.now(),
        )
        yield noted(found) if further else found


def started(folder: Path, project: Project, request: dict[str, Any]) -> tuple[RunnerProcess, dict[str, Any]]:
    folder.mkdir(parents=True)
    (folder / REQUEST).write_text(json.dumps(request))
    return start_runner(JobStorage(folder), project)


def test_a_fork_writes_what_it_writes_without_isolation(
    project: Project, engine: Engine, stores: Path
) -> None:
    location, start, before = crew_after(stores, 2)
    request = request_for(
        start, location, edits=Edits(inputs={"topic": "tea"}), entry_point="press_crew:make_crew"
    )
    folder = engine.job()
    child, in_force = started(folder, project, request)
    status = exit_status(child, 120)
    assert status == 0, (read_events(folder, 0)[0][-1:], (folder / "log.txt").read_text()[-3000:])
    assert in_force["launcher"] == project.isolation["launcher"] and in_force["limits"] == LIMITS
    assert sorted(tasks_called(engine.model)) == ["Title", "Write"]
    assert set(engine.model.keys) == {f"Bearer {KEY}"}
    new = written(location, before)
    assert is_chain(start.id, [saved for saved in new if saved.branch == "try-it"])
    isolated = [event["kind"] for event in read_events(folder, 0)[0]]
    engine.model.reset()
    plain = engine.run(request_for(start, location, edits=Edits(inputs={"topic": "tea"}), branch="again"))
    assert [line["kind"] for line in plain.lines if line["kind"] != "warning"] == [
        kind for kind in isolated if kind != "warning"
    ]


def test_an_interrupted_run_ends_its_spool(project: Project, engine: Engine, stores: Path) -> None:
    location = stores / "crew"
    request = request_for(after_task(location, 2), location, kind="resume")
    engine.model.gate.clear()
    folder = engine.job()
    child, _in_force = started(folder, project, request)
    engine.model.wait_for(1)
    os.killpg(child.pid, signal.SIGINT)
    assert exit_status(child) == 130
    assert read_events(folder, 0)[0][-1]["data"]["status"] == "cancelled"

"""The terminal's commands on the press project."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from tests.engine_runs.model import TestModel
from tests.engine_runs.prewarmed_jobs import PrewarmedJobs
from tests.engine_runs.runs import KEY, PRESS, ROOT
from tests.environments import environment_with
from viewer.models import Project

Done = subprocess.CompletedProcess[str]
Terminal = Callable[..., Done]


@pytest.fixture
def project(engine_python: Path, model: TestModel, tmp_path: Path) -> list[str]:
    """Return the options that name the press project."""
    file = tmp_path / "press.env"
    file.write_text(f"OPENAI_API_KEY={KEY}\nOPENAI_BASE_URL={model.url}\n")
    return ["--project", str(PRESS), "--python", str(engine_python), "--env-file", str(file)]


@pytest.fixture
def data_folder(empty_data_folder: Path, prewarmed_jobs: PrewarmedJobs, settings: Settings) -> Path:
    """Return a new data folder at the same path for each test, which prewarmed processes depend on."""
    folder = prewarmed_jobs.folder / "data"
    shutil.rmtree(folder, ignore_errors=True)
    settings.DATA_DIR = shutil.copytree(empty_data_folder, folder)
    return folder


@pytest.fixture
def terminal(
    project: list[str], data_folder: Path, engine_python: Path, prewarmed_jobs: PrewarmedJobs, db: None
) -> Terminal:
    """Return a function that runs the command with the options of the press project."""
    prewarmed_jobs.serve(Project(pk=1, folder=str(PRESS), interpreter=str(engine_python)), data_folder)

    def run(*arguments: str) -> Done:
        command = [sys.executable, str(ROOT / "manage.py"), "checkpoints", *arguments, *project]
        environment = environment_with(data_folder)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        # A refused fork is a start in a new process, which these tests have no time for.
        assert "without a prewarmed process" not in done.stderr
        return done

    return run


def document(done: Done) -> dict[str, Any]:
    """Return the only document on stdout."""
    value: dict[str, Any] = json.loads(done.stdout)
    return value

"""A run whose imports do not resolve names the folder that would work, and runs from it."""

import shutil
from pathlib import Path

import pytest

from tests.engine_runs.runs import PRESS, new_run_request
from tests.runners.conftest import Engine


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Create a project that is run from src/press."""
    modules = tmp_path / "project/src/press"
    (modules / "writing").mkdir(parents=True)
    shutil.copy(PRESS / "press_flow.py", modules / "writing/flow.py")
    (modules / "main.py").write_text("from writing.flow import PressFlow\n\n__all__ = ['PressFlow']\n")
    return tmp_path / "project"


def test_a_refusal_names_the_folder_that_has_the_module(engine: Engine, project: Path) -> None:
    request = new_run_request(project / "store", "flow", "press.main:PressFlow", {"topic": "AI", "year": 1})
    error = engine.refused({**request, "folder": str(project)})

    assert f"{project}/src/press has one" in error


def test_a_run_works_from_the_named_folder(engine: Engine, project: Path) -> None:
    request = new_run_request(project / "store", "flow", "main:PressFlow", {"topic": "AI", "year": 1})
    engine.completed({**request, "folder": str(project / "src/press")})


def test_a_refusal_names_a_module_that_is_missing_everywhere(engine: Engine, project: Path) -> None:
    (project / "src/press/main.py").write_text("import writing_of_nobody\n")
    request = new_run_request(project / "store", "flow", "main:PressFlow", {})
    run = engine.run({**request, "folder": str(project / "src/press")})

    assert "no module writing_of_nobody in the project or its environment" in run.end["error"]

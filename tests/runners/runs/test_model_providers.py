"""Models whose provider's package is not installed are found before anything is paid for."""

from pathlib import Path

import pytest

from tests.engine_runs.model import TestModel
from tests.engine_runs.runs import new_run_request
from tests.runners.conftest import Engine

pytestmark = pytest.mark.engine


def test_a_planner_without_an_installed_provider_is_found_before_the_run(
    engine: Engine, model: TestModel, tmp_path: Path
) -> None:
    request = new_run_request(tmp_path / "store", "crew", "press_providers:planned", {})
    run = engine.run({**request, "options": {"accepted": []}})

    assert run.end["status"] == "failed"
    assert "crewai[anthropic]" in run.end["error"]
    assert model.requests == []


def test_an_accepted_missing_provider_does_not_block_the_run(
    engine: Engine, model: TestModel, tmp_path: Path
) -> None:
    request = new_run_request(tmp_path / "store", "flow", "press_providers:LateFlow", {"skips": True})
    run = engine.run({**request, "options": {"accepted": ["*"]}})

    assert run.end["status"] == "succeeded", run.end
    assert model.prompts() == ["First"]

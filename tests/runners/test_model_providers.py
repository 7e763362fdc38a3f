"""Models whose provider's package is not installed are found before anything is paid for."""

from pathlib import Path

import pytest

from tests.runners.children import new_run_request
from tests.runners.conftest import Engine
from tests.runners.model_server import ModelServer

pytestmark = pytest.mark.engine


def test_a_planner_whose_provider_is_not_installed_is_found_before_the_run(
    engine: Engine, model: ModelServer, tmp_path: Path
) -> None:
    request = new_run_request(tmp_path / "store", "crew", "press_providers:planned", {})
    run = engine.run({**request, "options": {"accepted": []}})

    assert run.end["status"] == "failed"
    assert "crewai[anthropic]" in run.end["error"]
    assert model.requests == []


def test_an_accepted_one_does_not_keep_the_run_from_starting(
    engine: Engine, model: ModelServer, tmp_path: Path
) -> None:
    request = new_run_request(tmp_path / "store", "flow", "press_providers:LateFlow", {"skips": True})
    run = engine.run({**request, "options": {"accepted": ["*"]}})

    assert run.end["status"] == "succeeded", run.end
    assert model.prompts() == ["First"]

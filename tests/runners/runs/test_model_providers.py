"""Models whose provider's package is not installed are found before anything is paid for."""

from pathlib import Path

from tests.engine_runs.runs import new_run_request
from tests.runners.conftest import Engine


def test_a_planner_without_an_installed_provider_is_found_before_the_run(
    engine: Engine, tmp_path: Path
) -> None:
    request = new_run_request(tmp_path / "store", "crew", "press_providers:planned", {})
    error = engine.refused({**request, "options": {"accepted": []}})

    assert "crewai[anthropic]" in error


def test_an_accepted_missing_provider_does_not_block_the_run(engine: Engine, tmp_path: Path) -> None:
    request = new_run_request(tmp_path / "store", "flow", "press_providers:LateFlow", {"skips": True})
    engine.completed({**request, "options": {"accepted": ["*"]}})

    assert engine.model.prompts() == ["First"]

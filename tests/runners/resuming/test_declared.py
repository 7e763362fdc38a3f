"""Crews of a ``crew.jsonc`` and flows of a ``flow.yaml``, as CrewAI's own scaffolds make them."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.engine_runs.checkpoints import after_task
from tests.engine_runs.runs import DESK, environment, new_run_request, request_for, saved_in
from tests.runners.conftest import Engine
from viewer.engines.crewai.entry_points import find_entry_points
from viewer.engines.entry_points import EntryPoint

GIVEN = {"audience": "children", "since": "1999"}


def test_a_preflight_check_of_a_declared_crew_lists_the_components_of_its_files(
    engine: Engine, stores: Path
) -> None:
    start = after_task(stores / "desk", 1)
    request = request_for(start, stores / "desk", kind="preflight", entry_point="crew.jsonc", folder=DESK)
    run = engine.completed(request)
    [report] = [line["report"] for line in run.of("preflight")]
    assert (report["blocks"], report["questions"]) == ([], [])
    parts = {(part["what"], part["name"], part["fate"]) for part in report["components"]}
    assert {
        ("tools", "archive", "project"),
        ("callbacks", "heard", "project"),
        ("guardrails", "is_said", "project"),
        ("links", "", "project"),
    } <= parts
    assert not [part for part in parts if part[2] == "lost"]
    assert engine.model.requests == []


@pytest.mark.parametrize(
    ("entry_point", "entity", "text"),
    [
        ("crew.json", "crew", "no file crew.json"),
        ("../line/src/line/flow.yaml", "flow", "no file ../line"),
        ("agents/writer.jsonc", "crew", "fails"),
        ("crew.jsonc", "flow", "fails"),
        ("crew.jsonc", "agent", "declares no standalone agent"),
    ],
)
def test_what_a_file_does_not_declare_is_refused(
    engine: Engine, tmp_path: Path, entry_point: str, entity: str, text: str
) -> None:
    error = engine.refused(new_run_request(tmp_path / "store", entity, entry_point, dict(GIVEN), folder=DESK))
    assert text in error


def test_projects_of_the_engines_scaffolds_are_found_and_run(
    engine: Engine, engine_python: Path, tmp_path: Path
) -> None:
    variables = {**environment(engine.model, tmp_path), "CREWAI_DMN": "1"}
    for arguments in (["crew", "papers", "--skip_provider"], ["flow", "river", "--declarative"]):
        command = [str(engine_python.with_name("crewai")), "create", *arguments]
        made = subprocess.run(
            command,
            cwd=tmp_path,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert made.returncode == 0, made.stderr
    assert find_entry_points(tmp_path / "papers") == (EntryPoint("crew.jsonc", "crew"),)
    assert find_entry_points(tmp_path / "river") == (EntryPoint("src/river/flow.yaml", "flow"),)
    asked = new_run_request(tmp_path / "a", "crew", "crew.jsonc", {}, folder=tmp_path / "papers")
    run = engine.completed(asked, CREWAI_STORAGE_DIR=str(tmp_path / "storage"))
    assert "Research current AI trends" in engine.model.prompts()[0]
    assert saved_in(tmp_path / "a")[-1].root["name"] == "papers"
    asked = new_run_request(tmp_path / "b", "flow", "src/river/flow.yaml", {}, folder=tmp_path / "river")
    run = engine.run(asked)
    assert (run.end["status"], run.end["result"]) == ("succeeded", "AI agents"), run.end

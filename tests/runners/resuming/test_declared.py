"""Crews of a ``crew.jsonc`` and flows of a ``flow.yaml``, as CrewAI's own scaffolds make them."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.engine_runs.checkpoints import after_method, after_task, is_chain, written
from tests.engine_runs.model import TestModel
from tests.engine_runs.runs import DESK, LINE, environment, marks, new_run_request, request_for, saved_in
from tests.runners.conftest import Engine
from viewer.engines.crewai.source.entry_points import find_entry_points
from viewer.engines.entry_points import EntryPoint
from viewer.engines.plan import Edits

pytestmark = pytest.mark.engine
FLOW = "src/line/flow.yaml"
GIVEN = {"audience": "children", "since": "1999"}


def traced(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_a_declared_crew_is_resumed_with_its_tools_guardrails_and_context(
    engine: Engine, model: TestModel, stores: Path, tmp_path: Path
) -> None:
    location, before = stores / "desk", marks(stores / "desk")
    start = after_task(location, 1)
    request = request_for(start, location, kind="resume", entry_point="crew.jsonc", folder=DESK)
    run = engine.run(request, PRESS_TRACE=str(tmp_path / "trace"))
    assert run.end["status"] == "succeeded", run.end
    assert len(model.requests) == 2
    assert traced(tmp_path / "trace") == ["guardrail"]
    notes, facts = start.tasks[0]["output"]["raw"], saved_in(location)[-1].tasks[1]["output"]["raw"]
    assert "Write about AI for children" in model.prompts()[1]
    assert notes in model.prompts()[1]
    assert facts not in model.prompts()[1]
    new = written(location, before)
    assert is_chain(start.id, new)
    assert new[-1].done == 3


def test_a_fork_of_a_declared_crew_calls_its_custom_tool_and_callback(
    engine: Engine, model: TestModel, stores: Path, tmp_path: Path
) -> None:
    location = stores / "desk"
    start = after_task(location, 1)
    collect = start.tasks[0]["id"]
    edits = Edits(inputs={"topic": "tea"}, again=frozenset([collect]))
    model.calls_tools = True
    request = request_for(start, location, edits=edits, entry_point="crew.jsonc", folder=DESK)
    run = engine.run(request, PRESS_TRACE=str(tmp_path / "trace"))
    assert run.end["status"] == "succeeded", run.end
    assert traced(tmp_path / "trace") == ["archive words", "callback collect", "guardrail"]
    assert "Collect tea in 2026" in model.prompts()[0]
    assert "Researcher of tea" in model.prompts()[0]


def test_a_new_run_of_a_declared_crew_uses_the_inputs_of_its_file(
    engine: Engine, model: TestModel, tmp_path: Path
) -> None:
    asked = new_run_request(tmp_path / "store", "crew", "crew.jsonc", {**GIVEN, "year": 1999}, folder=DESK)
    run = engine.run(asked)
    assert run.end["status"] == "succeeded", run.end
    assert len(model.requests) == 3
    assert "Collect AI in 1999" in model.prompts()[0]
    last = saved_in(tmp_path / "store")[-1]
    assert last.root["checkpoint_inputs"] == {**GIVEN, "topic": "AI", "year": 1999}


def test_a_preflight_check_of_a_declared_crew_lists_the_components_of_its_files(
    engine: Engine, model: TestModel, stores: Path
) -> None:
    start = after_task(stores / "desk", 1)
    request = request_for(start, stores / "desk", kind="preflight", entry_point="crew.jsonc", folder=DESK)
    run = engine.run(request)
    assert run.end["status"] == "succeeded", run.end
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
    assert model.requests == []


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
    engine: Engine, model: TestModel, tmp_path: Path, entry_point: str, entity: str, text: str
) -> None:
    run = engine.run(new_run_request(tmp_path / "store", entity, entry_point, dict(GIVEN), folder=DESK))
    assert run.end["status"] == "failed"
    assert text in run.end["error"]
    assert model.requests == []


@pytest.mark.parametrize("entry_point", [FLOW, "line.steps:make_flow"])
def test_a_declared_flow_is_resumed_from_its_file_or_from_a_function(
    engine: Engine, model: TestModel, stores: Path, entry_point: str
) -> None:
    location, before = stores / "line", marks(stores / "line")
    start = after_method(location, "outline")
    request = request_for(start, location, entity="flow", kind="resume", entry_point=entry_point, folder=LINE)
    run = engine.run(request)
    assert run.end["status"] == "succeeded", run.end
    assert [line["method"] for line in run.of("method_started")] == ["turn", "write_long", "publish"]
    outline = start.root["checkpoint_method_outputs"][0]["output"]["text"]
    assert len(model.requests) == 2
    assert f"Write about bees from {outline}" in model.prompts()[0]
    assert "Publish bees of 2026, 3 words" in model.prompts()[1]
    assert is_chain(start.id, written(location, before))
    assert run.of("warning") == []


def test_a_fork_of_a_declared_flow_uses_its_edited_state(
    engine: Engine, model: TestModel, stores: Path
) -> None:
    location, before = stores / "line", marks(stores / "line")
    start = after_method(location, "outline")
    edits = Edits(state={"year": 1999, "topic": "tea"})
    run = engine.run(request_for(start, location, entity="flow", edits=edits, entry_point=FLOW, folder=LINE))
    assert run.end["status"] == "succeeded", run.end
    assert model.prompts() == ["Briefly tea"]
    new = written(location, before)
    assert new[0].root["checkpoint_state"]["year"] == 1999
    assert {saved.branch for saved in new} == {"try-it"}


def test_a_new_run_of_a_declared_flow_uses_the_state_of_its_file(
    engine: Engine, model: TestModel, tmp_path: Path
) -> None:
    run = engine.run(new_run_request(tmp_path / "store", "flow", FLOW, {"year": 1999}, folder=LINE))
    assert run.end["status"] == "succeeded", run.end
    assert model.prompts() == ["Outline AI", "Briefly AI"]
    [steps] = run.of("steps")
    assert [step["title"] for step in steps["steps"]][:2] == ["outline", "turn"]


def test_projects_of_the_engines_scaffolds_are_found_and_run(
    engine: Engine, model: TestModel, engine_python: Path, tmp_path: Path
) -> None:
    variables = {**environment(model, tmp_path), "CREWAI_DMN": "1"}
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
    run = engine.run(asked, CREWAI_STORAGE_DIR=str(tmp_path / "storage"))
    assert run.end["status"] == "succeeded", run.end
    assert "Research current AI trends" in model.prompts()[0]
    assert saved_in(tmp_path / "a")[-1].root["name"] == "papers"
    asked = new_run_request(tmp_path / "b", "flow", "src/river/flow.yaml", {}, folder=tmp_path / "river")
    run = engine.run(asked)
    assert (run.end["status"], run.end["result"]) == ("succeeded", "AI agents"), run.end

"""Nothing that a checkpoint names is executed, read, written or sent."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.engine_runs.checkpoints import after_task
from tests.engine_runs.model import model_server
from tests.engine_runs.runs import KEY, Saved, marks, request_for
from tests.runners.conftest import Engine

# Importing this module of the standard library prints a poem.
POEM = "The Zen of Python"


@pytest.fixture
def engine(cold_engine: Engine) -> Engine:
    """Start each runner like a worker: its end and its allowed imports are under test."""
    return cold_engine


def rewritten(saved: Saved) -> Saved:
    Path(saved.source).write_text(json.dumps(saved.body))
    return saved


def agents_of(saved: Saved) -> list[dict[str, Any]]:
    return [
        *saved.root["agents"],
        *(task["agent"] for task in saved.tasks),
    ]


def test_a_tool_outside_the_project_is_refused_and_not_imported(engine: Engine, stores: Path) -> None:
    start = after_task(stores / "crew", 2)
    start.tasks[2]["tools"] = [{"tool_type": "this.Tool", "name": "x", "description": "x"}]
    run = engine.run(request_for(rewritten(start), stores / "crew"))
    assert run.end["status"] == "failed"
    assert "this.Tool" in run.end["error"]
    assert POEM not in run.log
    assert engine.model.requests == []


def test_what_a_checkpoint_would_execute_read_or_write_is_dropped(
    engine: Engine, stores: Path, tmp_path: Path
) -> None:
    start = after_task(stores / "crew", 2)
    trace = tmp_path / "trace"
    tool = {"tool_type": "this.Tool", "name": "x", "description": "x"}
    for agent in agents_of(start):
        agent["mcps"] = [{"command": "touch", "args": [str(trace)]}]
        agent["callbacks"] = ["this.s"]
        agent["knowledge_sources"] = [{"source_type": "text_file", "file_paths": [str(tmp_path)]}]
    for task in start.tasks:
        task.update(callback="this.s", output_file=str(trace), guardrail="this.s")
    start.root.update(trained_agents_file=str(trace), step_callback="this.s", output_log_file=str(trace))
    start.root["checkpoint"].update(max_checkpoints=1, location=str(tmp_path / "elsewhere"), restore_from="x")
    start.body["entities"].append({"entity_type": "flow", "input_provider": "this:s"})
    for node in start.body["event_record"]["nodes"].values():
        node["event"]["tools"] = [tool]
        node["event"]["agent"] = {**start.root["agents"][0], "tools": [tool]}
        node["event"]["crew"] = {**start.root, "tasks": [{**start.tasks[0], "tools": [tool]}]}
    before = marks(stores / "crew")
    request = request_for(rewritten(start), stores / "crew")
    run = engine.completed(request, CREWAI_DESERIALIZE_CALLBACKS="1")
    assert POEM not in run.log
    assert not trace.exists()
    assert not (tmp_path / "elsewhere").exists()
    assert len(engine.model.requests) == 2
    now = marks(stores / "crew")
    assert set(before) <= set(now)  # nothing was pruned
    (warning,) = [line["message"] for line in run.of("warning") if "Not restored" in line["message"]]
    for text in ("callbacks", "guardrails", "MCP servers", "knowledge", "output files"):
        assert text in warning


def test_the_environment_decides_the_key_and_where_it_is_sent(engine: Engine, stores: Path) -> None:
    start = after_task(stores / "crew", 2)
    with model_server() as other:
        for agent in agents_of(start):
            agent["llm"].update(
                api_key="sk-of-the-checkpoint", base_url=other.url, default_headers={"x": "y"}
            )
            agent["llm"]["client_params"] = {"base_url": other.url}
        engine.completed(request_for(rewritten(start), stores / "crew"))
        assert other.requests == []
    assert set(engine.model.keys) == {f"Bearer {KEY}"}


def test_without_an_address_in_the_environment_nothing_is_sent_to_the_checkpoints(
    engine: Engine, stores: Path
) -> None:
    start = after_task(stores / "crew", 2)
    with model_server() as other:
        for agent in agents_of(start):
            agent["llm"]["base_url"] = other.url
        run = engine.run(request_for(rewritten(start), stores / "crew"), OPENAI_BASE_URL="")
        assert run.end["status"] == "failed"
        assert other.url in run.end["error"]
        assert other.requests == []

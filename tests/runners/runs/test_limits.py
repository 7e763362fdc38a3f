"""Real runs at their limits: no further model call, and a resume runs only the rest."""

import json
import re
from pathlib import Path
from typing import Any

from tests.engine_runs import runs as children
from tests.engine_runs.checkpoints import (
    after_method,
    after_task,
    crew_after,
    is_chain,
    tasks_called,
    written,
)
from tests.engine_runs.model import TestModel
from tests.engine_runs.runs import request_for
from tests.runners.conftest import Engine
from tests.runners.runs.conftest import Terminal, document
from viewer.host.jobs.spool import STOP


def with_limits(request: dict[str, Any], **limits: float) -> dict[str, Any]:
    return {**request, "options": {"limits": limits}}


def test_a_run_stops_at_its_token_limit_and_a_resume_runs_the_rest(
    terminal: Terminal, model: TestModel, stores: Path
) -> None:
    location, start, before = crew_after(stores, 2)
    named = ("--entrypoint", "press_crew:make_crew", "--wait", "--json")
    printed = document(
        terminal("fork", f"{location}#{start.id}", "--branch", "short", "--limit", "tokens=1", *named)
    )
    assert printed["status"] == "cancelled"
    assert re.fullmatch(
        r"Stopped at its limit of 1 token\. It had used \d+ tokens, \d+ tokens more\.", printed["limit_hit"]
    )
    assert printed["limits"] == {"tokens": 1}
    assert tasks_called(model) == ["Write"]
    last = printed["checkpoints"][-1]["id"]
    model.reset()
    printed = document(terminal("resume", f"{location}#{last}", *named))
    assert (printed["status"], printed["limit_hit"]) == ("succeeded", "")
    assert tasks_called(model) == ["Title"]
    new = written(location, before)
    assert {saved.branch for saved in new} == {"short"}
    assert is_chain(start.id, new)
    assert new[-1].done == 4


def test_a_crew_and_a_flow_start_no_step_beyond_their_limit(engine: Engine, stores: Path) -> None:
    crew = request_for(after_task(stores / "crew", 2), stores / "crew", entry_point="press_crew:make_crew")
    run = engine.run(with_limits(crew, steps=1))
    assert run.end["status"] == "cancelled"
    assert run.of("limit") == [{"whose": "job", "measure": "steps", "max_amount": 1}]
    assert tasks_called(engine.model) == ["Write"]
    engine.model.reset()
    start = after_method(stores / "flow", "outline")
    flow = request_for(start, stores / "flow", entry_point="press_restless:RestlessFlow")
    run = engine.run(with_limits(flow, steps=1), RESTLESS="0")
    assert run.end["status"] == "cancelled"
    assert len(run.of("method_completed")) == 1
    assert engine.model.prompts() == ["Stir"]


def test_a_time_limit_is_reached_while_a_model_does_not_answer(engine: Engine, stores: Path) -> None:
    engine.model.gate.clear()
    request = request_for(after_task(stores / "crew", 2), stores / "crew", entry_point="press_crew:make_crew")
    run = engine.run(with_limits(request, seconds=1))
    assert run.end["status"] == "cancelled"
    assert run.of("limit") == [{"whose": "job", "measure": "seconds", "max_amount": 1}]


def test_no_model_is_called_when_a_shared_limit_is_reached(engine: Engine, stores: Path) -> None:
    request = request_for(after_task(stores / "crew", 2), stores / "crew", entry_point="press_crew:make_crew")
    folder = engine.job()
    folder.mkdir()
    limit = {"whose": "project", "measure": "tokens", "max_amount": 10}
    (folder / STOP).write_text(json.dumps(limit))
    run = children.run(engine.python, engine.model, folder, request)
    assert run.end["status"] == "cancelled"
    assert run.of("limit") == [limit]
    assert engine.model.prompts() == []

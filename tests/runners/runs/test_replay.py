"""A recorded model call is made again with CrewAI's models."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.engine_runs import runs as children
from tests.engine_runs.replays import MESSAGES, TOOL, as_replay
from tests.engine_runs.runs import new_run_request
from tests.runners.conftest import Engine
from viewer.host.jobs.spool import STOP

MODEL = "openai/gpt-4o-mini"
CREW = "press_crew:make_crew"


@pytest.fixture
def request_of_crew(tmp_path: Path) -> dict[str, Any]:
    return {**new_run_request(tmp_path / "store", "crew", CREW, {}), "options": {}}


def test_each_model_is_called_as_often_as_requested(engine: Engine, request_of_crew: dict[str, Any]) -> None:
    replay = as_replay(
        request_of_crew, MODEL, "openai/gpt-4o", times=2, parameters={"temperature": 0.5, "seed": 7}
    )
    run = engine.completed(replay)

    answers = run.of("call_replayed")
    assert [(one["model"], one["attempt"]) for one in answers] == [
        (MODEL, 1),
        ("openai/gpt-4o", 1),
        (MODEL, 2),
        ("openai/gpt-4o", 2),
    ]
    assert all(one["text"].startswith("words ") and not one["error"] for one in answers)
    sent = engine.model.requests
    assert [one["model"] for one in sent] == ["gpt-4o-mini", "gpt-4o"] * 2
    assert all((one["temperature"], one["seed"]) == (0.5, 7) for one in sent)
    roles = [message["role"] for message in sent[0]["messages"]]
    assert roles == ["system", "user", "assistant", "tool"]
    assert sent[0]["messages"][2]["tool_calls"][0]["function"]["arguments"] == '{"words": "tea"}'
    # The usage of each call is reported before its answer, and nothing of the run is written.
    assert [one["tokens"] for one in run.of("model_completed")] == [12] * 4
    assert run.of("model_completed")[-1]["total_tokens"] == 48
    assert not run.of("checkpoint") and not Path(request_of_crew["location"]["path"]).exists()


def test_a_requested_tool_is_reported_and_not_executed(
    engine: Engine, request_of_crew: dict[str, Any]
) -> None:
    engine.model.calls_tools = 1
    replay = as_replay(request_of_crew, MODEL, messages=MESSAGES[:2], tools=[TOOL])
    run = engine.completed(replay)

    (answer,) = run.of("call_replayed")
    (tool,) = answer["tools"]
    assert tool["name"] == "search_archive" and "words" in str(tool["arguments"])
    assert not answer["text"] and not run.of("tool_started") and len(engine.model.requests) == 1


def test_a_failed_call_is_reported_and_the_others_continue(
    engine: Engine, request_of_crew: dict[str, Any]
) -> None:
    engine.model.refusals = {'"gpt-4o"': 400}
    run = engine.completed(as_replay(request_of_crew, MODEL, "openai/gpt-4o"))
    assert [bool(one["error"]) for one in run.of("call_replayed")] == [False, True]

    engine.model.refusals = {"tea": 400}
    end = engine.run(as_replay(request_of_crew, MODEL)).end
    assert end["status"] == "failed" and end["error"]


def test_a_model_that_cannot_be_made_is_refused_before_any_call(
    engine: Engine, request_of_crew: dict[str, Any]
) -> None:
    error = engine.refused(as_replay(request_of_crew, MODEL, "anthropic/claude"))
    assert "anthropic/claude" in error


def test_a_limit_ends_the_calls(engine: Engine, request_of_crew: dict[str, Any]) -> None:
    replay = as_replay(request_of_crew, MODEL, times=5)
    run = engine.run({**replay, "options": {"limits": {"tokens": 20}}})
    assert run.end["status"] == "cancelled"
    assert len(engine.model.requests) == 2 and len(run.of("call_replayed")) == 2


def test_a_shared_limit_ends_the_calls_of_a_model_that_reports_nothing(
    engine: Engine, request_of_crew: dict[str, Any]
) -> None:
    replay = as_replay({**request_of_crew, "entry_point": "press_parts:with_silent_model"}, "silent", times=5)
    assert [one["text"] for one in engine.completed(replay).of("call_replayed")] == ["silent"] * 5
    folder = engine.job()
    folder.mkdir()
    (folder / STOP).write_text(json.dumps({"whose": "project", "measure": "tokens", "max_amount": 10}))
    run = children.run(engine.python, engine.model, folder, replay)
    assert run.end["status"] == "cancelled" and not run.of("call_replayed")


def test_a_call_can_be_replayed_without_an_entry_point(
    engine: Engine, request_of_crew: dict[str, Any]
) -> None:
    run = engine.completed(as_replay({**request_of_crew, "entry_point": ""}, MODEL))
    assert run.of("call_replayed")[0]["text"].startswith("words ")

"""What a crew's tools are: called, answered with recorded results, asked about or refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.engine_runs.checkpoints import after_task
from tests.engine_runs.runs import Ended, request_for
from tests.runners.conftest import Engine

TOOLS = {
    "with_class_tool": ("mark_archive", {"words": "words"}, "class tool words"),
    "with_function_tool": ("count_words", {"text": "words"}, "function tool words"),
}
either_tool = pytest.mark.parametrize("crew", TOOLS)


def fork(stores: Path, engine: Engine, crew: str, *results: str | None, **options: Any) -> dict[str, Any]:
    """Return a fork whose third task calls the crew's tool once."""
    engine.model.calls_tools = 1
    start = after_task(stores / "plain", 2)
    name, arguments, _called = TOOLS[crew]
    recorded = [{"tool": name, "arguments": arguments, "result": result} for result in results]
    request = request_for(start, stores / "plain", entry_point=f"press_parts:{crew}")
    tools = {"choices": {}, "recorded": recorded, "is_known": True, "dry_run": False, **options}
    return request | {"options": {"tools": tools}}


def outcome(ended: Ended, trace: Path) -> tuple[list[tuple[str, bool]], list[str]]:
    """What was decided, and what the tool's own code did."""
    decisions = [(one["decision"], one["asked"]) for one in ended.of("tool_decided")]
    return decisions, trace.read_text().splitlines() if trace.exists() else []


def sent_results(engine: Engine) -> list[str]:
    messages = [one for request in engine.model.requests for one in request["messages"]]
    return [str(one["content"]) for one in messages if one["role"] == "tool"]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "trace"


@either_tool
def test_a_tool_without_a_record_is_called(engine: Engine, stores: Path, trace: Path, crew: str) -> None:
    ended = engine.completed(fork(stores, engine, crew), PRESS_TRACE=str(trace))
    assert outcome(ended, trace) == ([("call", False)], [TOOLS[crew][2]])


@either_tool
def test_a_recorded_result_answers(engine: Engine, stores: Path, trace: Path, crew: str) -> None:
    request = fork(stores, engine, crew, "as recorded", choices={TOOLS[crew][0]: "recorded"})
    ended = engine.completed(request, PRESS_TRACE=str(trace))
    assert outcome(ended, trace) == ([("recorded", False)], [])
    assert "as recorded" in sent_results(engine)


@either_tool
@pytest.mark.parametrize(
    ("answer", "decision", "called"),
    [
        ("call", "call", "words"),
        ("edited", "call", "other words"),
        ("recorded", "recorded", ""),
        ("refuse", "refuse", ""),
    ],
)
def test_a_person_is_asked_before_a_recorded_call_is_repeated(
    engine: Engine, stores: Path, trace: Path, crew: str, answer: str, decision: str, called: str
) -> None:
    _name, arguments, mark = TOOLS[crew]
    text = json.dumps(dict.fromkeys(arguments, "other words")) if answer == "edited" else answer
    ended = engine.answered(fork(stores, engine, crew, "as recorded"), text, PRESS_TRACE=str(trace))
    (question,) = ended.of("question")
    assert question["kind"] == "tool_call" and json.loads(question["context"]["output"]) == arguments
    ran = [mark.replace(" words", f" {called}")] if called else []
    assert outcome(ended, trace) == ([(decision, True)], ran)


def test_a_dry_run_calls_no_tool(engine: Engine, stores: Path, trace: Path) -> None:
    ended = engine.completed(fork(stores, engine, "with_class_tool", dry_run=True), PRESS_TRACE=str(trace))
    assert outcome(ended, trace) == ([("refuse", False)], [])
    assert any("dry run" in one for one in sent_results(engine))


def test_a_read_only_tool_of_a_server_is_called(engine: Engine, stores: Path, trace: Path) -> None:
    engine.model.calls_tools = 1
    start, entry_point = after_task(stores / "plain", 2), "press_tools:with_read_only_server"
    tools = {"choices": {}, "recorded": [], "is_known": False, "dry_run": False}
    request = request_for(start, stores / "plain", entry_point=entry_point) | {"options": {"tools": tools}}
    decisions, called = outcome(engine.completed(request, PRESS_TRACE=str(trace)), trace)
    assert set(decisions) == {("call", False)} and set(called) == {"server tool words"}

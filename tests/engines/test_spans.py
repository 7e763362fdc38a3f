"""The spans that both engines record, from stores that the engines wrote."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.real_stores import STORES
from viewer.engines import engine_named
from viewer.engines.crewai.store_format import restarts
from viewer.engines.recorded_calls import Span, SpanSource


def spans_of(path: Path) -> list[Span]:
    return spans_in(json.loads(path.read_text()))


def spans_in(body: dict[str, Any]) -> list[Span]:
    """The spans that a decoded checkpoint of CrewAI records."""
    engine = engine_named("crewai")
    return engine.spans([SpanSource("c", None, engine.contents_of(body))])


def newest(folder: str) -> Path:
    return sorted((STORES / folder).rglob("*.json"))[-1]


@pytest.mark.parametrize("version", ["1.14.1", "1.14.2", "1.15.30"])
def test_calls_belong_to_the_unit_that_made_them(version: str) -> None:
    spans = spans_of(newest(f"{version}/json/main" if version != "1.14.1" else f"{version}/json"))
    units = {span.id: span for span in spans if span.kind == "unit"}
    calls = [span for span in spans if span.kind == "model"]
    assert units and calls and all(call.parent in units for call in calls)
    for call in calls:
        unit = units[call.parent]
        assert call.call.tokens and call.label == call.call.model == "gpt-4o-mini"
        assert unit.start <= call.start and call.end and (unit.end is None or call.end <= unit.end)
        assert call.prompt and call.answer and call.agent


def test_the_time_before_a_fork_is_a_gap() -> None:
    spans = spans_of(newest("1.15.30/json/exp-a"))
    (gap,) = [span for span in spans if span.kind == "gap"]
    assert gap.label == "until the fork" and gap.seconds > 60
    assert sum(span.seconds for span in spans if span.kind == "unit") < 6


def test_methods_are_units() -> None:
    spans = spans_of(newest("1.15.30/flow/main"))
    assert [span.label for span in spans if span.kind == "unit"] == ["one", "two", "three"]
    assert all(span.status == "done" and span.seconds < 1 for span in spans)


def test_a_hostile_record_has_no_spans_that_end_before_they_start() -> None:
    event = {"type": "task_started", "timestamp": "2026-01-01T00:00:00Z", "parent_event_id": "a"}
    body = {"event_record": {"nodes": {"a": {"event": event}, "b": {"event": {**event, "timestamp": []}}}}}
    engine = engine_named("crewai")
    (span,) = engine.spans([SpanSource("c", None, engine.contents_of(body))])
    assert (span.parent, span.status, span.seconds) == ("", "open", 0.0)


NOTHING_RAN = [
    ("a crash and a resume", ["task_completed", "checkpoint_started"], ["default_env", "task_started"]),
    ("a flow", ["method_execution_finished", "checkpoint_started"], ["flow_started", "default_env"]),
    ("no environment", ["task_started", "checkpoint_started"], ["agent_execution_started"]),
    ("no writes are recorded", ["task_completed"], ["default_env", "agent_execution_started"]),
    ("a recorded fork", ["task_completed", "checkpoint_started"], ["checkpoint_fork_started"]),
    ("an event during the write", ["task_completed", "checkpoint_started", "x_started"], ["cc_env"]),
]


@pytest.mark.parametrize(
    ("before", "after"), [case[1:] for case in NOTHING_RAN], ids=[case[0] for case in NOTHING_RAN]
)
def test_the_time_before_a_resume_is_not_worked(before: list[str], after: list[str]) -> None:
    written = [
        "task_started",
        "checkpoint_started",
        "checkpoint_completed",
        "llm_call_started",
        "llm_call_completed",
    ]
    first = ["crew_kickoff_started", *written, *before]
    events = [(kind, at * 0.01) for at, kind in enumerate(first)]
    events += [(kind, 60 + at * 0.01) for at, kind in enumerate(after)]
    assert restarts(events) == [len(first)]


def test_waiting_for_a_model_is_work_even_if_a_checkpoint_could_not_be_written() -> None:
    events = [("llm_call_completed", 0.0), ("llm_call_started", 1.0), ("checkpoint_started", 1.0)]
    assert restarts([*events, ("llm_call_completed", 90.0), ("task_started", 90.1)]) == []


def test_threads_that_write_at_the_same_time_are_no_resume() -> None:
    kinds = ["task_completed", "checkpoint_started", "checkpoint_started", "checkpoint_completed"]
    assert (
        restarts(
            [(kind, at * 0.1) for at, kind in enumerate([*kinds, "checkpoint_completed", "task_started"])]
        )
        == []
    )

"""The spans that both engines record, from stores that the engines wrote."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.real_stores import STORES
from viewer.engines import engine_named
from viewer.engines.spans import Span, SpanSource


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

"""The model calls that checkpoints of both engines record."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.real_stores import STORES
from viewer.engines import engine_named
from viewer.engines.recorded_calls import RecordedCall, SpanSource


def crewai_calls(body: dict[str, Any]) -> list[RecordedCall]:
    engine = engine_named("crewai")
    return list(engine.recorded_calls(engine.contents_of(body)))


def newest(folder: str) -> Path:
    return sorted((STORES / folder).rglob("*.json"))[-1]


@pytest.mark.parametrize("folder", ["1.14.1/json", "1.14.2/json/main", "1.15.30/json/main"])
def test_calls_of_every_version_have_messages_an_answer_and_their_usage(folder: str) -> None:
    calls = crewai_calls(json.loads(newest(folder).read_text()))
    assert calls and len({call.name for call in calls}) == len(calls)
    for call in calls:
        assert [message.role for message in call.messages] == ["system", "user"]
        assert call.answer and "Final Answer" in call.answer.text
        assert (call.model, call.usage.tokens) == ("gpt-4o-mini", 20) and call.seconds is not None
        assert call.agent and not call.is_conversation


def test_newer_versions_record_parameters_and_what_the_model_reported() -> None:
    (call, *_others) = crewai_calls(json.loads(newest("1.15.30/json/main").read_text()))
    assert call.parameters == {"stop_sequences": ["\nObservation:"], "stream": False}
    assert call.reported["finish_reason"] == "stop"


def test_the_span_of_a_call_names_it() -> None:
    engine, body = engine_named("crewai"), json.loads(newest("1.15.30/json/main").read_text())
    contents = engine.contents_of(body)
    spans = engine.spans([SpanSource("c", None, contents)])
    named = [span.call_id for span in spans if span.kind == "model"]
    assert named == [call.id for call in engine.recorded_calls(contents)]


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"event": {"type": kind, "timestamp": "2026-01-01T00:00:00Z", **fields}}


def test_requested_and_offered_tools_are_read() -> None:
    tool = {"type": "function", "function": {"name": "find", "description": "Finds", "parameters": {"a": 1}}}
    requested = [{"id": "t1", "function": {"name": "find", "arguments": '{"q": "tea"}'}}]
    asked = {"role": "assistant", "content": None, "tool_calls": requested}
    reply = {"role": "tool", "tool_call_id": "t1", "content": [{"text": "leaf"}, {"image_url": "…"}]}
    nodes = {
        "a": event("llm_call_started", event_id="a", model="m", messages=[asked, reply], tools=[tool]),
        "b": event("llm_call_completed", event_id="b", started_event_id="a", response=requested),
    }
    (call,) = crewai_calls({"event_record": {"nodes": nodes}})
    first, second = call.messages
    assert first.tools == call.answer.tools and first.tools[0].arguments == {"q": "tea"}  # type: ignore[union-attr]
    assert (second.answers, second.text, second.other_parts) == ("t1", "leaf", 1)
    assert (call.tools[0].name, call.tools[0].schema) == ("find", {"a": 1})


def test_a_failed_call_has_an_error_and_no_answer() -> None:
    nodes = {
        "a": event("llm_call_started", event_id="a", model="m", messages="Hello"),
        "b": event("llm_call_failed", event_id="b", started_event_id="a", error="no key"),
        "c": event("llm_call_started", event_id="c", model="m"),
    }
    failed, unanswered = crewai_calls({"event_record": {"nodes": nodes}})
    assert (failed.error, failed.answer, failed.messages[0].text) == ("no key", None, "Hello")
    assert (unanswered.error, unanswered.answer, unanswered.messages) == ("", None, ())


@pytest.mark.parametrize("value", [None, 1, "x", [], [1], {"a": []}, [{"function": "x"}], [{"content": {}}]])
def test_hostile_events_raise_nothing(value: Any) -> None:
    fields = dict.fromkeys(("messages", "tools", "response", "usage", "model", "temperature"), value)
    nodes = {
        "a": event("llm_call_started", event_id="a", **fields),
        "b": event("llm_call_completed", event_id="b", started_event_id="a", **fields),
    }
    assert len(crewai_calls({"event_record": {"nodes": nodes}})) == 1


def message(kind: str, **fields: Any) -> dict[str, Any]:
    return {"__type__": f"langchain_core.messages.{kind}", "fields": fields}


def test_the_answers_of_a_thread_are_calls_with_the_messages_before_them() -> None:
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    requested = [{"name": "find", "args": {"q": "tea"}, "id": "t1"}]
    answer = message(
        "AIMessage",
        type="ai",
        id="one",
        content="",
        tool_calls=requested,
        usage_metadata=usage,
        response_metadata={"model_name": "m", "finish_reason": "stop", "token_usage": usage},
    )
    asked = message("HumanMessage", type="human", id="zero", content="Find tea")
    later = message("AIMessage", type="ai", id="two", content="Found")
    body = {
        "checkpoint_id": "c",
        "checkpoint": {"channel_values": {"messages": [asked, answer]}},
        "writes": [{"task_id": "t", "index": 0, "channel": "messages", "value": [answer, later]}],
    }
    engine = engine_named("langgraph")
    first, second = engine.recorded_calls(engine.contents_of(body))
    assert (first.id, first.model, first.usage.tokens) == ("one", "m", 5)
    assert [one.text for one in first.messages] == ["Find tea"] and first.is_conversation
    assert first.answer and first.answer.tools[0].arguments == {"q": "tea"}
    assert first.reported == {"model_name": "m", "finish_reason": "stop"} and not first.parameters
    assert second.id == "two" and second.messages[-1].role == "assistant" and not second.usage.tokens


def test_the_calls_of_a_long_thread_share_its_messages() -> None:
    """Otherwise they would take memory quadratic in its length."""
    messages = [message("AIMessage", type="ai", id=f"m{at}", content="Found") for at in range(100)]
    engine = engine_named("langgraph")
    calls = list(
        engine.recorded_calls(engine.contents_of({"checkpoint": {"channel_values": {"m": messages}}}))
    )
    assert [len(call.messages) for call in calls] == list(range(100))
    assert all(call.conversation is calls[0].conversation for call in calls)

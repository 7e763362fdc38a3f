"""Calls of tools that a fork repeats, in both kinds of stores: answered, asked about, or refused."""

import json
from typing import Any

import pytest

from forkline_runner.recorded import Message, digest_of
from quality.compatibility.graphs.table import ROW
from tests.engine_runs.runs import Ended
from tests.engine_runs.sides import Side, Store

THREAD = "thread"
WEATHER = {"tool": "weather", "arguments": {"town": "Oslo"}, "result": "rain in Oslo"}
MAIL = {"tool": "send_mail", "arguments": {"to": "ada", "subject": "Lunch"}, "result": "Sent to ada: Lunch"}
# The checkpoint before the tool is called.
BEFORE = 2


WAYS: dict[str, tuple[dict[str, Any], tuple[str, ...], str, str]] = {
    "from the record": ({"choices": {"weather": "recorded"}}, (), "recorded", "rain in Oslo"),
    "asked, with other arguments": ({}, (json.dumps({"town": "Rome"}),), "call", "sunny in Rome"),
    "refused": ({"choices": {"weather": "refuse"}}, (), "refuse", "was not called"),
    "dry run": ({"dry_run": True, "recorded": []}, (), "refuse", "in a dry run"),
}
SENT: list[Message] = [
    ("user", "Oslo", []),
    ("assistant", "", [("weather", {"town": "Oslo"})]),
    ("tool", "rain in Oslo", []),
]
ANSWER = {
    **{
        "messages": digest_of(SENT),
        "sent": "",
        "model": "",
        "text": "It rains.",
        "tools": [],
        "id": "answer",
    },
    **{"is_certain": True, "is_in_order": False},
}


def fork(side: Side, graph: str, at: int, *answers: str, **tools: Any) -> Ended:
    """Fork the thread. Old versions name messages by a former module, which a person accepts."""
    decided = {"choices": {}, "is_known": True, "dry_run": False, **tools}
    request = side.request("fork", graph, THREAD, at, tools=decided) | {"accepted_effects": ["*"]}
    return side.completed(request, *answers)


@pytest.mark.parametrize(
    ("graph", "way"),
    [*(("agent", way) for way in WAYS), *(("synchronous", way) for way in list(WAYS)[:2])],
)
def test_a_repeated_call_of_an_agent_is_decided_about(
    graph: str, way: str, store: Store, record_property: Any
) -> None:
    is_async = graph == "agent"
    what = "tool call" if is_async else "synchronous tool call"
    record_property(ROW, f"{what} of an agent, {way} ({store.name})")
    side, graph = store.recorded, f"agents:{graph}"
    side.run_langgraph(graph, THREAD, [{"input": {"messages": ["Oslo"]}}], **{"async": is_async})
    side.forget()
    tools, answers, decision, result = WAYS[way]
    ended = fork(side, graph, BEFORE, *answers, **{"recorded": [WEATHER], **tools})
    assert [(one["decision"], one["asked"]) for one in ended.of("tool_decided")] == [
        (decision, bool(answers))
    ]
    assert result in str(ended.end["result"])
    assert ("weather" in side.nodes()) == (decision == "call")


def test_a_dry_run_calls_no_model(store: Store, record_property: Any) -> None:
    record_property(ROW, f"dry run of an agent without a model ({store.name})")
    side = store.recorded
    side.run_langgraph("agents:agent", THREAD, [{"input": {"messages": ["Oslo"]}}], **{"async": True})
    side.forget()
    tools = {"choices": {}, "recorded": [WEATHER], "is_known": True, "dry_run": True}
    answers = {"recorded": [ANSWER], "in_order": False}
    request = side.request("fork", "agents:agent", THREAD, BEFORE, tools=tools, model_calls=answers)
    ended = side.completed(request | {"accepted_effects": ["*"]})
    assert ended.end["result"] == "It rains." and side.nodes() == []
    # The record has no second answer to these messages.
    answers["recorded"] = []
    stopped = side.run(request | {"accepted_effects": ["*"]})
    assert "no usable answer" in str(stopped.end["error"]) and side.nodes() == []


def test_a_repeated_call_by_hand_is_decided_about(store: Store, record_property: Any) -> None:
    record_property(ROW, f"tool call of a node by hand, from the record ({store.name})")
    side, asked = store.recorded, {"messages": [["user", "Mail Ada"]]}
    # LangGraph creates the tables of a database.
    side.run_langgraph("agents:agent", "first", [{"input": {"messages": ["Oslo"]}}], **{"async": True})
    side.forget()
    run = side.request("run", "documented:mail_graph", THREAD, inputs=asked)
    side.completed(run | {"accepted_effects": ["*"]}, json.dumps({"action": "approve"}))
    ended = fork(side, "documented:mail_graph", BEFORE, recorded=[MAIL], choices={MAIL["tool"]: "recorded"})
    assert ended.end["result"] == MAIL["result"] and "send_mail" not in side.nodes()

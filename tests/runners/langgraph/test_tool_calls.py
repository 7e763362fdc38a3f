"""What a graph's tools are: called, answered with recorded results, asked about or refused."""

import json
from typing import Any

import pytest

from tests.engine_runs.graphs import Graphs

WEATHER = {"tool": "weather", "arguments": {"town": "Oslo"}, "result": "rain in Oslo"}
# The checkpoint before the tool is called.
BEFORE = 2


def tools(*recorded: dict[str, Any], dry_run: bool = False, **choices: str) -> dict[str, Any]:
    return {"choices": choices, "recorded": list(recorded), "is_known": True, "dry_run": dry_run}


@pytest.fixture
def agent(graphs: Graphs) -> Graphs:
    """Return the thread ``agent``, in which the model has called the tool once."""
    graphs.completed(request(graphs, "run", inputs={"messages": ["Oslo"]}))
    graphs.nodes()
    return graphs


def request(
    graphs: Graphs, kind: str, *at: int, graph: str = "agents:agent", **options: Any
) -> dict[str, Any]:
    # Versions before 0.3 name messages by a former module, which a person accepts.
    accepted = {"accepted_effects": ["*"] if graphs.version < (0, 3) else []}
    return graphs.request(kind, graph, "agent", *at, **options) | accepted


def decisions(ended: Any) -> list[tuple[str, str, bool]]:
    return [(one["tool"], one["decision"], one["asked"]) for one in ended.of("tool_decided")]


def test_a_tool_without_a_record_is_called(agent: Graphs) -> None:
    ended = agent.completed(request(agent, "fork", BEFORE, tools=tools()))
    assert ended.end["result"] == "It is sunny in Oslo."
    assert decisions(ended) == [("weather", "call", False)]
    assert agent.nodes() == ["model", "weather"]


def test_a_recorded_result_answers_once(agent: Graphs) -> None:
    recorded = tools(WEATHER, weather="recorded")
    ended = agent.completed(request(agent, "fork", BEFORE, tools=recorded))
    assert ended.end["result"] == "It is rain in Oslo."
    assert decisions(ended) == [("weather", "recorded", False)]
    assert agent.nodes() == ["model"]


@pytest.mark.parametrize(
    ("answer", "result", "decision", "nodes"),
    [
        ("call", "It is sunny in Oslo.", "call", ["model", "weather"]),
        (json.dumps({"town": "Rome"}), "It is sunny in Rome.", "call", ["model", "weather"]),
        ("recorded", "It is rain in Oslo.", "recorded", ["model"]),
        (
            "refuse",
            "It is Error: this tool was not called, because a person refused the call..",
            "refuse",
            ["model"],
        ),
    ],
)
def test_a_person_is_asked_before_a_recorded_call_is_repeated(
    agent: Graphs, answer: str, result: str, decision: str, nodes: list[str]
) -> None:
    ended = agent.completed(request(agent, "fork", BEFORE, tools=tools(WEATHER)), answer)
    (question,) = ended.of("question")
    assert question["kind"] == "tool_call" and question["context"]["choices"] == [
        "call",
        "recorded",
        "refuse",
    ]
    assert json.loads(question["context"]["output"]) == {"town": "Oslo"}
    assert ended.end["result"] == result
    assert decisions(ended) == [("weather", decision, True)]
    assert agent.nodes() == nodes


def test_a_call_with_other_arguments_is_asked_about(agent: Graphs) -> None:
    other = tools(WEATHER | {"arguments": {"town": "Rome"}}, weather="recorded")
    ended = agent.completed(request(agent, "fork", BEFORE, tools=other), "call")
    assert ended.of("question")[0]["context"]["choices"] == ["call", "refuse"]
    assert ended.end["result"] == "It is sunny in Oslo."


def test_a_person_is_asked_about_every_tool_if_the_record_could_not_be_read(agent: Graphs) -> None:
    unknown = tools() | {"is_known": False}
    ended = agent.completed(request(agent, "fork", BEFORE, tools=unknown), "call")
    assert decisions(ended) == [("weather", "call", True)]


def test_a_tool_that_is_declared_to_be_read_only_is_called(agent: Graphs) -> None:
    declared = request(agent, "fork", BEFORE, graph="agents:reading", tools=tools(WEATHER))
    assert decisions(agent.completed(declared)) == [("weather", "call", False)]
    assert "weather" in agent.nodes()
    chosen = request(agent, "fork", BEFORE, graph="agents:reading", tools=tools(WEATHER, weather="refuse"))
    assert decisions(agent.completed(chosen)) == [("weather", "refuse", False)]
    assert "weather" not in agent.nodes()


def test_an_asynchronous_and_another_tool_at_once_are_decided_about(graphs: Graphs) -> None:
    graphs.completed(request(graphs, "run", graph="agents:both", inputs={"messages": ["Oslo and Rome"]}))
    graphs.nodes()
    rome = {"tool": "tide", "arguments": {"town": "Rome"}, "result": "low in Rome"}
    both = tools(WEATHER, rome, weather="recorded")
    ended = graphs.completed(request(graphs, "fork", BEFORE, graph="agents:both", tools=both), "refuse")
    assert sorted(decisions(ended)) == [("tide", "refuse", True), ("weather", "recorded", False)]
    assert graphs.nodes() == ["model"]


def test_a_dry_run_calls_no_tool(agent: Graphs) -> None:
    answered = agent.completed(request(agent, "fork", BEFORE, tools=tools(WEATHER, dry_run=True)))
    assert answered.end["result"] == "It is rain in Oslo."
    refused = agent.completed(request(agent, "fork", BEFORE, tools=tools(dry_run=True, weather="call")))
    assert "in a dry run" in str(refused.end["result"]) and decisions(refused) == [
        ("weather", "refuse", False)
    ]
    assert agent.nodes() == ["model"]


def test_a_node_that_calls_a_tool_by_hand_is_decided_about(graphs: Graphs) -> None:
    run = graphs.request("run", "documented:mail_graph", "mail", inputs={"messages": [["user", "Mail Ada"]]})
    graphs.completed(run, json.dumps({"action": "approve"}))
    sent = {
        "tool": "send_mail",
        "arguments": {"to": "ada", "subject": "Lunch"},
        "result": "Sent to ada: Lunch",
    }
    fork = graphs.request("fork", "documented:mail_graph", "mail", 2, tools=tools(sent, send_mail="recorded"))
    ended = graphs.completed(fork)
    assert ended.end["result"] == "Sent to ada: Lunch"
    assert "send_mail" not in graphs.nodes()


def test_a_preflight_check_names_the_tools_of_nodes_and_says_which_may_run(graphs: Graphs) -> None:
    graphs.completed(request(graphs, "run", graph="agents:booking", inputs={"messages": ["Oslo"]}))
    for at, booked in ((1, True), (2, False)):
        (event,) = graphs.run(request(graphs, "preflight", at, graph="agents:booking")).of("preflight")
        found = {one["node"]: (one["tools"], one["may_run"]) for one in event["report"]["tools"]}
        assert found == {"book": (["tide"], booked), "agent": (["weather"], True)}

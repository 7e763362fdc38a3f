"""What ``langgraph.json`` may name as a graph: each kind runs, on the thread that was asked for."""

import json

import pytest

from tests.engine_runs.graphs import Graphs, checkpoints


@pytest.mark.parametrize("maker", ["sync_made", "with_config", "with_options", "async_made"])
def test_a_factory_makes_the_graph(graphs: Graphs, maker: str) -> None:
    graphs.completed(graphs.request("run", f"makers:{maker}", inputs={"topic": "mice"}))
    assert graphs.nodes() == ["end", "left", "right", "start"]


def test_a_context_manager_is_open_while_its_graph_runs(graphs: Graphs) -> None:
    graphs.completed(graphs.request("run", "makers:opened", inputs={"topic": "mice"}))
    assert graphs.order()[0] == "opened" and graphs.order()[-1] == "closed"


def test_an_async_context_manager_is_open_while_its_graph_runs(graphs: Graphs) -> None:
    ended = graphs.completed(graphs.request("run", "makers:async_opened", inputs={"topic": "mice"}))
    # From a folder of the dependencies, with a variable of the environment.
    assert json.loads(ended.end["result"])["notes"][0] == "hello the mice"
    assert graphs.order() == ["use", "last", "closed"]


def test_a_fork_of_what_an_async_context_manager_made_leaves_the_store_alone(graphs: Graphs) -> None:
    graphs.run(graphs.request("run", "makers:async_opened", "open", inputs={"topic": "mice"}))
    before = checkpoints(graphs.folder, "open")
    ended = graphs.run(graphs.request("fork", "makers:async_opened", "open", 1, state={"topic": "dogs"}))
    assert json.loads(ended.end["result"])["notes"][0] == "hello the dogs"
    assert checkpoints(graphs.folder, "open") == before


def test_the_input_of_a_function_need_not_be_an_object(graphs: Graphs) -> None:
    ended = graphs.completed(graphs.request("run", "functions:write", inputs={"input": "cats"}))
    assert ended.end["result"] == "published draft on cats"
    assert graphs.nodes() == ["draft", "publish"]


def test_the_input_of_a_function_may_be_an_object(graphs: Graphs) -> None:
    ended = graphs.run(graphs.request("run", "functions:ordered", inputs={"number": 7, "title": "lamp"}))
    assert ended.end["result"] == "7 lamp"


def test_what_json_cannot_hold_is_shown_as_python_writes_it(graphs: Graphs) -> None:
    request = graphs.request("run", "functions:dated", inputs={"input": 31})
    if graphs.version < (0, 6):
        # LangGraph itself writes outputs as JSON, into the metadata of checkpoints.
        assert "keys must be str" in graphs.run(request).end["error"]
        return
    ended = graphs.completed(request)
    outputs = {one["node"]: one["output"] for one in ended.of("node_completed")}
    assert "{datetime.date(2026, 1, 31): {'day': 31}}" in outputs["in_january"]


def test_a_function_that_asks_is_forked_with_both_answers(graphs: Graphs) -> None:
    run = graphs.request("run", "functions:reviewed", "review", inputs={"input": "cats"})
    first = graphs.run(run, "yes")
    assert [one["prompt"] for one in first.of("question")] == ["Publish draft on cats?"]
    assert json.loads(first.end["result"]) == {"text": "published draft on cats", "answer": "yes"}
    ended = graphs.run(graphs.request("fork", "functions:reviewed", "review", 0), "no")
    assert json.loads(ended.end["result"]) == {"text": "", "answer": "no"}
    assert graphs.nodes() == ["draft"]


def test_an_agent_with_a_tool_runs_and_is_forked_after_the_tools_call(graphs: Graphs) -> None:
    # Versions before 0.3 name messages by a former module, which a person accepts.
    accepted = {"accepted_effects": ["*"] if graphs.version < (0, 3) else []}
    request = graphs.request("run", "agents:agent", "agent", inputs={"messages": ["Oslo"]})
    ended = graphs.run(request | accepted)
    assert ended.end["result"] == "It is sunny in Oslo." and graphs.nodes() == ["model", "model", "weather"]
    assert [one["tool"] for one in ended.of("tool_completed")] == ["weather"]
    forked = graphs.run(graphs.request("fork", "agents:agent", "agent", 2) | accepted)
    assert forked.end["result"] == "It is sunny in Oslo." and graphs.nodes() == ["model", "weather"]


@pytest.mark.parametrize("kind", ["effects", "preflight", "next", "fork"])
def test_the_source_of_a_graph_may_import_savers_and_stores(graphs: Graphs, kind: str) -> None:
    # A process that has not imported the engine yet.
    cold = Graphs(graphs.python, graphs.folder)
    ended = cold.run(cold.request("fork", "savers:saved", "fan", 2) | {"kind": kind})
    assert ended.end["status"] == "succeeded", ended.end
    assert not [block for event in ended.of("preflight") for block in event["report"]["blocks"]]
    assert graphs.nodes() == (["end", "left", "right"] if kind == "fork" else [])

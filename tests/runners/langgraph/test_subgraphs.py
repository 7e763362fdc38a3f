"""An interrupted subgraph continues with its own state edited."""

import json
from typing import Any

import pytest

from tests.engine_runs.graphs import Graphs, checkpoints, digests

pytestmark = pytest.mark.engine


def inner_request(graphs: Graphs, **values: Any) -> dict[str, Any]:
    """A fork of the subgraph's last checkpoint, which waits for an answer."""
    request = graphs.request("fork", "nested", "nested", **values)
    namespace = graphs.namespace("nested")
    last = checkpoints(graphs.folder, "nested", namespace)[-1]
    request["checkpoint"] = {"id": last, "source": f"{graphs.store}#nested/{namespace}/{last}"}
    return request


def test_the_question_and_what_follows_see_the_edited_state_of_the_subgraph(graphs: Graphs) -> None:
    before = digests(graphs.folder)
    ended = graphs.run(inner_request(graphs, state={"topic": "dogs"}), "no")
    assert ended.end["status"] == "succeeded", ended.end
    assert [event["prompt"] for event in ended.of("question")] == ["Publish dogs?"]
    assert graphs.nodes() == ["after", "approve", "approve", "drop"]
    assert "drop on dogs" in json.loads(ended.end["result"])["notes"]
    assert digests(graphs.folder) == before


def test_a_fork_of_the_subgraph_does_what_update_state_of_langgraph_does(graphs: Graphs) -> None:
    ended = graphs.run(inner_request(graphs, state={"topic": "dogs"}), "no")
    program = """
import json, sqlite3, sys, graphs
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
connection = sqlite3.connect(sys.argv[1], check_same_thread=False)
graph = graphs.nested_graph().compile(checkpointer=SqliteSaver(connection))
config = {"configurable": {"thread_id": "nested"}}
graph.update_state(graph.get_state(config, subgraphs=True).tasks[0].state.config, {"topic": "dogs"})
graph.invoke(None, config)
print(json.dumps(graph.invoke(Command(resume="no"), config)["notes"]))
"""
    printed = graphs.by_engine(program, str(graphs.store))
    assert json.loads(ended.end["result"])["notes"] == json.loads(printed.splitlines()[-1])


def test_a_subgraph_that_nothing_waits_for_is_not_forked(graphs: Graphs) -> None:
    request = inner_request(graphs, state={"topic": "dogs"})
    namespace = graphs.namespace("nested")
    first = checkpoints(graphs.folder, "nested", namespace)[0]
    request["checkpoint"] = {"id": first, "source": f"{graphs.store}#nested/{namespace}/{first}"}
    assert "cannot be forked alone" in graphs.run(request).end["error"] and graphs.nodes() == []


def test_the_preflight_check_of_a_subgraph_has_its_channels_and_nodes(graphs: Graphs) -> None:
    ended = graphs.run({**inner_request(graphs), "kind": "preflight"})
    report = ended.of("preflight")[0]["report"]
    assert report["nodes"] == ["draft", "publish", "drop", "approve"] and report["next"] == ["inner"]
    assert not report["blocks"]

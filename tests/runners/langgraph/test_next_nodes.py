"""What would run next after an edit, for each node, asked in one process, and what then does."""

import json
from typing import Any

import pytest

from tests.engine_runs.graphs import Graphs, digests

pytestmark = pytest.mark.engine


def asked(graphs: Graphs, state: dict[str, Any], **options: Any) -> dict[str, dict[str, Any]]:
    """The answer for each node, at the checkpoint before ``approve``."""
    request = graphs.request("fork", "approval", "approval", state=state, **options)
    ended = graphs.run({**request, "kind": "next"})
    assert graphs.nodes() == []
    (event,) = ended.of("preflight")
    assert not event["report"]["blocks"], event["report"]["blocks"]
    return {one["node"]: one for one in event["report"]["next_by_node"]}


def test_each_node_shows_what_would_run_next_with_the_edited_state(graphs: Graphs) -> None:
    before = digests(graphs.folder)
    yes, no = (asked(graphs, {"decision": answer}) for answer in ("yes", "no"))
    assert yes["approve"]["next"] == ["publish"] and no["approve"]["next"] == ["drop"]
    assert yes["draft"]["next"] == yes[""]["next"] == ["approve"] and yes["publish"]["next"] == []
    assert yes["approve"]["after"] == {"decision": "yes"}
    assert digests(graphs.folder) == before


def test_a_reducer_determines_what_an_edit_does_to_a_channel(graphs: Graphs) -> None:
    added = asked(graphs, {"notes": ["mine"]})[""]["after"]
    replaced = asked(graphs, {"notes": ["mine"]}, replace=["notes"])[""]["after"]
    assert json.loads(added["notes"]) == ["draft on cats", "mine"]
    assert json.loads(replaced["notes"]) == ["mine"]


def test_an_edge_that_cannot_decide_is_an_answer_of_its_node(graphs: Graphs) -> None:
    found = asked(graphs, {"topic": "dogs"})
    assert "KeyError" in found["approve"]["error"] and found["draft"]["next"] == ["approve"]


def test_a_fork_as_a_node_runs_what_update_state_and_invoke_of_langgraph_run(graphs: Graphs) -> None:
    state = {"decision": "no"}
    ours = graphs.run(graphs.request("fork", "approval", "approval", state=state, as_node="approve"))
    assert ours.end["status"] == "succeeded" and graphs.nodes() == ["drop"]
    program = """
import sqlite3, sys, graphs
from langgraph.checkpoint.sqlite import SqliteSaver
connection = sqlite3.connect(sys.argv[1], check_same_thread=False)
graph = graphs.approval_graph().compile(checkpointer=SqliteSaver(connection))
config = {"configurable": {"thread_id": "approval"}}
graph.invoke(None, graph.update_state(config, {"decision": "no"}, as_node="approve"))
"""
    graphs.by_engine(program, str(graphs.store))
    assert graphs.nodes() == ["drop"]

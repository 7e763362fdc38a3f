"""Replays, and graphs that decide on their way, next to what LangGraph itself does."""

import json

import pytest

from tests.engine_runs.graphs import Graphs, checkpoints, digests

pytestmark = pytest.mark.engine

REPLAY = """
import sqlite3, sys, graphs
from langgraph.checkpoint.sqlite import SqliteSaver
store, thread, checkpoint = sys.argv[1:4]
connection = sqlite3.connect(store, check_same_thread=False)
graph = graphs.fan_graph().compile(checkpointer=SqliteSaver(connection))
place = {"thread_id": thread, "checkpoint_id": checkpoint, "checkpoint_ns": ""}
print(graph.invoke(None, {"configurable": place})["notes"])
"""
AT_EXIT = """
import inspect, sqlite3, sys, graphs
from langgraph.checkpoint.sqlite import SqliteSaver
connection = sqlite3.connect(sys.argv[1], check_same_thread=False)
graph = graphs.fan_graph().compile(checkpointer=SqliteSaver(connection))
named = inspect.signature(graph.stream).parameters
# Older versions say it with another name, or write each step.
late = {"durability": "exit"} if "durability" in named else {}
late = late or ({"checkpoint_during": False} if "checkpoint_during" in named else {})
graph.invoke({"topic": "cats"}, {"configurable": {"thread_id": sys.argv[2]}}, **late)
connection.close()
"""


def test_a_replay_from_the_middle_runs_what_the_engine_runs(graphs: Graphs) -> None:
    before = digests(graphs.folder)
    ended = graphs.run(graphs.request("fork", "fan", "fan", 2, steps=["left", "right"]))
    ours = graphs.nodes()
    assert digests(graphs.folder) == before
    graphs.by_engine(REPLAY, str(graphs.store), "fan", checkpoints(graphs.folder, "fan")[2])
    assert ours == graphs.nodes() == ["end", "left", "right"]
    assert json.loads(ended.end["result"])["notes"][-1] == "end on cats"


def test_a_node_that_names_what_follows_chooses_again_in_a_fork(graphs: Graphs) -> None:
    first = graphs.run(graphs.request("run", "steering:goto", "goto", inputs={"topic": "cats"}))
    assert first.end["status"] == "succeeded" and graphs.nodes() == ["choose", "left"]
    ended = graphs.run(graphs.request("fork", "steering:goto", "goto", 1, state={"topic": "dogs"}))
    assert ended.end["status"] == "succeeded", ended.end
    assert graphs.nodes() == ["choose", "right"]
    # After the choice, a fork without an edit keeps it.
    graphs.run(graphs.request("fork", "steering:goto", "goto", 2))
    assert graphs.nodes() == ["left"]


def test_a_node_that_is_tried_again_counts_once(graphs: Graphs) -> None:
    ended = graphs.run(graphs.request("run", "steering:retried", "retried", inputs={"topic": "cats"}))
    assert ended.end["status"] == "succeeded", ended.end
    assert graphs.nodes() == ["before", "flaky", "flaky"]
    assert [one["node"] for one in ended.of("node_completed")] == ["before", "flaky"]
    forked = graphs.run(graphs.request("fork", "steering:retried", "retried", 2))
    assert json.loads(forked.end["result"])["notes"] == ["before on cats", "flaky worked"]
    assert graphs.nodes() == ["flaky", "flaky"]


def test_a_thread_written_only_at_its_exit_is_forked(graphs: Graphs) -> None:
    graphs.by_engine(AT_EXIT, str(graphs.store), "late")
    graphs.nodes()
    before = digests(graphs.folder)
    request = graphs.request("fork", "fan", "late", state={"topic": "dogs"}, as_node="start")
    ended = graphs.run(request)
    assert ended.end["status"] == "succeeded", ended.end
    assert graphs.nodes() == ["end", "left", "right"] and digests(graphs.folder) == before
    assert json.loads(ended.end["result"])["notes"][-1] == "end on dogs"

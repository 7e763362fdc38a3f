"""Graphs that decide on their way, and nodes that are tried again."""

import json

from tests.engine_runs.graphs import Graphs


def test_a_node_that_names_what_follows_chooses_again_in_a_fork(graphs: Graphs) -> None:
    graphs.completed(graphs.request("run", "steering:goto", "goto", inputs={"topic": "cats"}))
    assert graphs.nodes() == ["choose", "left"]
    graphs.completed(graphs.request("fork", "steering:goto", "goto", 1, state={"topic": "dogs"}))
    assert graphs.nodes() == ["choose", "right"]
    # After the choice, a fork without an edit keeps it.
    graphs.run(graphs.request("fork", "steering:goto", "goto", 2))
    assert graphs.nodes() == ["left"]


def test_a_node_that_is_tried_again_counts_once(graphs: Graphs) -> None:
    ended = graphs.completed(graphs.request("run", "steering:retried", "retried", inputs={"topic": "cats"}))
    assert graphs.nodes() == ["before", "flaky", "flaky"]
    assert [one["node"] for one in ended.of("node_completed")] == ["before", "flaky"]
    (retried,) = ended.of("node_retried")
    assert (retried["node"], retried["error"]) == ("flaky", "ConnectionError: not yet")
    assert retried["waited"] > 0 and retried["id"] == ended.of("node_started")[1]["id"]
    forked = graphs.run(graphs.request("fork", "steering:retried", "retried", 2))
    assert json.loads(forked.end["result"])["notes"] == ["before on cats", "flaky worked"]
    assert graphs.nodes() == ["flaky", "flaky"]

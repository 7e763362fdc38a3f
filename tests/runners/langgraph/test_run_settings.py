"""Breakpoints, configurable values and context of a run."""

import json
from pathlib import Path

from tests.engine_runs.graphs import Graphs, checkpoints, digests

GIVEN = {"topic": "mice"}


def test_a_resume_stops_after_a_breakpoint_and_the_next_one_continues(graphs: Graphs) -> None:
    stopped = graphs.run(graphs.request("resume", "approval", "approval", typed={"answers": {"": "yes"}}))
    assert graphs.nodes() == ["approve", "publish"] and not stopped.of("breakpoint")
    again = graphs.run(graphs.request("resume", "fan", "failed", stop_after=["right"]))
    assert again.of("breakpoint") == [{"nodes": ["end"]}] and graphs.nodes() == ["right"]
    graphs.completed(graphs.request("resume", "fan", "failed", stop_before=["end"]))
    assert graphs.nodes() == ["end"]


def test_a_new_run_stops_at_every_node_if_all_are_breakpoints(graphs: Graphs) -> None:
    inputs = {"topic": "mice"}
    ended = graphs.run(graphs.request("run", "fan", "mice", inputs=inputs, stop_after=["*"]))
    assert ended.of("breakpoint") == [{"nodes": ["left", "right"]}] and graphs.nodes() == ["start"]


def test_a_fork_that_stopped_is_resumed_on_a_copy_of_its_scratch_store(graphs: Graphs) -> None:
    before = digests(graphs.folder)
    stopped = graphs.run(graphs.request("fork", "fan", "fan", 1, stop_before=["end"]))
    last = stopped.of("checkpoint")[-1]
    request = graphs.request("resume", "fan", "fan")
    request["checkpoint"] = {"id": last["id"], "source": last["path"]}
    graphs.nodes()
    ended = graphs.completed(request)
    assert graphs.nodes() == ["end"]
    assert ended.of("checkpoint")[0]["parent"] == last["id"]
    assert Path(ended.of("checkpoint")[0]["path"].partition("#")[0]) != graphs.store
    assert digests(graphs.folder) == before


def test_a_breakpoint_at_no_node_of_the_graph_is_refused(graphs: Graphs) -> None:
    ended = graphs.run(graphs.request("fork", "fan", "fan", 1, stop_before=["nowhere"]))
    assert "nowhere" in ended.end["error"] and graphs.nodes() == []


def test_configurable_values_reach_the_nodes(graphs: Graphs) -> None:
    request = graphs.request(
        "run", "configured", "thread-1", inputs=GIVEN, typed={"configurable": {"tone": "warm"}}
    )
    ended = graphs.completed(request)
    notes = json.loads(ended.end["result"])["notes"]
    assert notes[0] == "configurable warm"


def test_a_context_reaches_the_nodes_or_is_refused_by_a_version_without(graphs: Graphs) -> None:
    request = graphs.request(
        "run", "configured", "thread-1", inputs=GIVEN, typed={"context": {"tone": "cold"}}
    )
    ended = graphs.run(request)
    if graphs.version < (0, 6):
        assert "has no context" in ended.end["error"] and graphs.nodes() == []
    else:
        assert "context cold" in json.loads(ended.end["result"])["notes"]


def test_a_configurable_value_cannot_name_another_thread(graphs: Graphs) -> None:
    thread = checkpoints(graphs.folder, "fan")
    request = graphs.request("run", "fan", "mine", typed={"configurable": {"thread_id": "fan"}})
    assert "thread_id" in graphs.run(request).end["error"]
    assert checkpoints(graphs.folder, "fan") == thread and graphs.nodes() == []

"""An edited fork runs what was to run next: what nodes chose with ``Command``, sends, inputs and joins."""

import json
import shutil
from collections.abc import Sequence
from typing import Any

import pytest

from tests.engine_runs.graphs import PROJECT, Graphs, checkpoints, digests, run_program
from tests.langgraph.conftest import RECORDED

DOGS = {"topic": "dogs"}


def recorded(graphs: Graphs, graph: str, **inputs: Any) -> None:
    """Run a graph of the module commands with LangGraph, on a thread of its name."""
    actions = [{"input": {"topic": "cats", **inputs}}]
    arguments = [str(graphs.store), f"commands:{graph}", graph, json.dumps(actions), "{}"]
    run_program(graphs.engine, graphs.folder, PROJECT / "by_langgraph.py", *arguments)
    graphs.nodes()


def forked(graphs: Graphs, graph: str, at: int, state: dict[str, Any] | None = None, **options: Any) -> Any:
    """Fork a thread with an edited state, which leaves the store as it was. Return the end of the run."""
    before = digests(graphs.folder)
    request = graphs.request("fork", f"commands:{graph}", graph, at, state=state or DOGS, **options)
    ended = graphs.run(request)
    assert digests(graphs.folder) == before
    return ended


def asked(graphs: Graphs, graph: str, at: int, state: dict[str, Any] | None = None) -> dict[str, list[str]]:
    """What would run next, for each node that the edit can be attributed to."""
    request = graphs.request("fork", f"commands:{graph}", graph, at, state=state or DOGS)
    (event,) = graphs.run({**request, "kind": "next"}).of("preflight")
    assert not event["report"]["blocks"], event["report"]["blocks"]
    return {one["node"]: one["next"] for one in event["report"]["next_by_node"]}


# The graph, the checkpoint, what is next there, and all nodes that run.
CASES: list[tuple[str, int, Sequence[str], Sequence[str]]] = [
    ("supervisor", 0, ["supervisor"], ["researcher", "supervisor", "supervisor", "supervisor", "writer"]),
    ("supervisor", 1, ["supervisor"], ["researcher", "supervisor", "supervisor", "supervisor", "writer"]),
    ("supervisor", 2, ["researcher"], ["researcher", "supervisor", "supervisor", "writer"]),
    ("supervisor", 3, ["supervisor"], ["supervisor", "supervisor", "writer"]),
    ("supervisor", 4, ["writer"], ["supervisor", "writer"]),
    ("both", 2, ["left", "right"], ["end", "left", "right"]),
    ("both", 3, ["end"], ["end"]),
    ("sending", 2, ["beside", "work", "work 2"], ["beside", "work-a", "work-b"]),
    ("parent", 2, ["after"], ["after"]),
    ("mixed", 2, ["chosen", "fixed"], ["chosen", "fixed"]),
    # The condition decides again.
    ("conditional", 2, ["chosen", "no"], ["chosen", "no"]),
    ("joined", 2, ["left", "long"], ["end", "later", "left", "long"]),
    # Two nodes with edges ran last.
    (
        "parallel",
        3,
        ["after_left", "after_right", "chosen", "end"],
        ["after_left", "after_right", "chosen", "end"],
    ),
    (
        "parallel_decided",
        3,
        ["after_left", "after_right", "chosen", "end", "no"],
        ["after_left", "after_right", "chosen", "end", "no"],
    ),
]


@pytest.mark.parametrize(("graph", "at", "following", "ran"), CASES)
def test_an_edited_fork_runs_what_was_to_run_next(
    graphs: Graphs, graph: str, at: int, following: Sequence[str], ran: Sequence[str]
) -> None:
    recorded(graphs, graph)
    assert sorted(asked(graphs, graph, at)[""]) == following and graphs.nodes() == []
    ended = forked(graphs, graph, at)
    assert ended.end["status"] == "succeeded", ended.end
    assert graphs.nodes() == ran
    steps = [step["unit"] for step in ended.of("steps")[0]["steps"]]
    assert sorted(steps) == following
    assert json.loads(ended.end["result"])["topic"] == "dogs"


def test_a_reducer_adds_to_the_state_before_what_was_to_run_next(graphs: Graphs) -> None:
    recorded(graphs, "supervisor")
    ended = forked(graphs, "supervisor", 2, {"notes": ["mine"]})
    notes = json.loads(ended.end["result"])["notes"]
    assert notes[:3] == ["supervisor 0", "mine", "researcher on cats"]
    ended = forked(graphs, "supervisor", 2, {"notes": ["mine"]}, replace=["notes"])
    assert json.loads(ended.end["result"])["notes"][:2] == ["mine", "researcher on cats"]


def test_another_node_decides_what_follows_it(graphs: Graphs) -> None:
    recorded(graphs, "mixed")
    # Nothing follows chosen, which is not the node that ran last.
    ended = forked(graphs, "mixed", 2, as_node="chosen")
    assert "no node follows" in ended.end["error"] and graphs.nodes() == []
    assert forked(graphs, "mixed", 2, as_node="both").end["status"] == "succeeded"
    assert graphs.nodes() == ["chosen", "fixed"]


def test_an_edit_after_two_nodes_with_conditions_names_the_node_that_decides(graphs: Graphs) -> None:
    recorded(graphs, "split")
    ended = forked(graphs, "split", 3)
    assert ended.end["status"] == "failed" and "left" in ended.end["error"] and "right" in ended.end["error"]
    assert graphs.nodes() == []
    assert forked(graphs, "split", 3, as_node="left").end["status"] == "succeeded"
    assert "no" in graphs.nodes()


def test_nodes_that_ran_together_in_an_old_version_are_found(graphs: Graphs) -> None:
    # The versions of the channels of one step differ after the counter.
    shutil.copy(RECORDED / "lg02_76_parallel.db", graphs.store)
    ended = forked(graphs, "split", 3)
    assert ended.end["status"] == "failed" and graphs.nodes() == []
    assert ended.end["error"].endswith("“As node”: left, right")
    ended = forked(graphs, "parallel", 3)
    assert ended.end["status"] == "succeeded", ended.end
    assert graphs.nodes() == ["after_left", "after_right", "chosen", "end"]


def test_an_edit_at_the_end_of_two_nodes_names_both(graphs: Graphs) -> None:
    recorded(graphs, "twins")
    ended = forked(graphs, "twins", 3)
    assert ended.end["error"].endswith("“As node”: left, right") and graphs.nodes() == []


def test_a_fork_after_which_nothing_runs_is_refused(graphs: Graphs) -> None:
    recorded(graphs, "ending")
    assert asked(graphs, "ending", 2)[""] == []
    cases: list[tuple[int, dict[str, Any]]] = [(2, {}), (3, {}), (2, {"as_node": "more"})]
    for at, options in cases:
        ended = forked(graphs, "ending", at, **options)
        assert ended.end["status"] == "failed" and "no node follows" in ended.end["error"]
        assert graphs.nodes() == [] and not ended.of("node_started")
    assert forked(graphs, "ending", 2, {"topic": "cats"}).end["status"] == "succeeded"
    assert graphs.nodes() == ["more"]


@pytest.mark.parametrize("as_node", ["", "supervisor"])
def test_an_edit_of_an_input_keeps_the_rest_of_the_input(graphs: Graphs, as_node: str) -> None:
    recorded(graphs, "supervisor", notes=["given"])
    options = {"as_node": as_node} if as_node else {}
    ended = forked(graphs, "supervisor", 0, {"decision": "mine"}, **options)
    if as_node:
        assert "no node follows" in ended.end["error"]
        return
    values = json.loads(ended.end["result"])
    assert (values["topic"], values["decision"], values["notes"][0]) == ("cats", "mine", "given")


def test_an_edit_of_the_input_of_a_later_turn_keeps_it(graphs: Graphs) -> None:
    recorded(graphs, "both")
    before = len(checkpoints(graphs.folder, "both"))
    recorded(graphs, "both")
    assert asked(graphs, "both", before)[""] == ["plan"]
    ended = forked(graphs, "both", before)
    assert graphs.nodes() == ["end", "left", "plan", "right"]
    assert json.loads(ended.end["result"])["notes"][-1] == "end on dogs"


def test_an_edit_of_an_edited_checkpoint_keeps_what_the_first_edit_led_to(graphs: Graphs) -> None:
    recorded(graphs, "both")
    code = """
import sqlite3
from langgraph.checkpoint.sqlite import SqliteSaver
from commands import both_graph
saver = SqliteSaver(sqlite3.connect(sys.argv[1], check_same_thread=False))
graph = both_graph().compile(checkpointer=saver)
config = {"configurable": {"thread_id": "both"}}
graph.update_state(config, {"topic": "birds"}, as_node="__start__")
print(graph.get_state(config).next)
"""
    assert "('plan',)" in graphs.by_engine(code, str(graphs.store))
    graphs.nodes()
    assert asked(graphs, "both", -1)[""] == ["plan"]
    assert forked(graphs, "both", -1).end["status"] == "succeeded"
    assert graphs.nodes() == ["end", "left", "plan", "right"]


def test_a_fork_stops_at_a_static_breakpoint_and_goes_on_from_it(graphs: Graphs) -> None:
    graphs.completed(
        graphs.request(
            "run", "commands:supervisor", "supervisor", inputs={"topic": "cats"}, stop_before=["researcher"]
        )
    )
    assert graphs.nodes() == ["supervisor"]
    ended = forked(graphs, "supervisor", -1, stop_before=["researcher", "writer"])
    assert ended.end["status"] == "succeeded" and graphs.nodes() == ["researcher", "supervisor"]
    assert ended.of("breakpoint")[0]["nodes"] == ["writer"]


def test_an_edited_subgraph_keeps_what_it_was_to_run_next(graphs: Graphs) -> None:
    recorded(graphs, "deep")
    namespace = graphs.namespace("deep")
    last = checkpoints(graphs.folder, "deep", namespace)[-1]
    request = graphs.request("fork", "commands:deep", "deep", state=DOGS)
    request["checkpoint"] = {"id": last, "source": f"{graphs.store}#deep/{namespace}/{last}"}
    ended = graphs.run(request, "yes")
    assert ended.end["status"] == "succeeded", ended.end
    assert [one["prompt"] for one in ended.of("question")] == ["Write on dogs?"]
    assert graphs.nodes() == ["after", "supervisor", "writer", "writer"]

"""Forks of LangGraph threads run on a copy, so that the thread is unchanged."""

import json
import sqlite3
from typing import Any

from tests.engine_runs.graphs import Graphs, checkpoints, digests


def values_of(result: str) -> dict[str, Any]:
    """Return the values at the end of a run."""
    values: dict[str, Any] = json.loads(result)
    return values


def test_a_fork_leaves_every_byte_of_the_store_as_it_was(graphs: Graphs) -> None:
    before = digests(graphs.folder)
    end = graphs.run(graphs.request("fork", "fan", "fan", 1)).end
    assert end["status"] == "succeeded", end
    assert digests(graphs.folder) == before


def test_a_fork_of_a_store_that_another_process_writes_to_reads_its_log(graphs: Graphs) -> None:
    writer = sqlite3.connect(graphs.store)
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("UPDATE checkpoints SET metadata = metadata")
    writer.commit()
    before = digests(graphs.folder)
    assert len(before) == 3
    graphs.completed(graphs.request("fork", "fan", "fan", 1))
    assert digests(graphs.folder) == before
    writer.close()


def test_a_fork_with_an_edited_channel_runs_only_what_is_next(graphs: Graphs) -> None:
    ended = graphs.run(graphs.request("fork", "fan", "fan", 2, state={"topic": "dogs"}))
    assert values_of(ended.end["result"])["notes"] == [
        "start on cats",
        "left on dogs",
        "right on dogs",
        "end on dogs",
    ]
    assert graphs.nodes() == ["end", "left", "right"]
    started = [event["node"] for event in ended.of("node_started")]
    assert sorted(started) == ["end", "left", "right"]
    assert ended.of("checkpoint")[0]["parent"] == checkpoints(graphs.folder, "fan")[2]


def test_an_edited_object_keeps_its_class(graphs: Graphs) -> None:
    ticket = {"__type__": "graphs.Ticket", "fields": {"number": 7, "title": "lamp"}}
    ended = graphs.run(graphs.request("fork", "fan", "fan", 2, state={"ticket": ticket}))
    assert values_of(ended.end["result"])["ticket"] == "Ticket(number=7, title='lamp')"


def test_a_change_after_parallel_nodes_without_conditions_runs_what_they_lead_to(graphs: Graphs) -> None:
    graphs.completed(graphs.request("fork", "fan", "fan", 3, state={"topic": "dogs"}))
    assert graphs.nodes() == ["end"]
    graphs.completed(graphs.request("fork", "fan", "fan", 3, state={"topic": "dogs"}, as_node="end"))
    assert graphs.nodes() == ["end"]


def test_a_fork_whose_graph_would_run_something_else_than_planned_is_refused(graphs: Graphs) -> None:
    ended = graphs.run(graphs.request("fork", "fan", "fan", 3, steps=["left"]))
    assert "the plan says left" in ended.end["error"] and graphs.nodes() == []
    graphs.completed(graphs.request("fork", "fan", "fan", 2, steps=["left", "right"]))


def test_two_answers_to_one_interrupt_make_two_branches(graphs: Graphs) -> None:
    before = digests(graphs.folder)
    for answer, follows in (("yes", "publish"), ("no", "drop")):
        ended = graphs.run(graphs.request("fork", "approval", "approval"), answer)
        (question,) = ended.of("question")
        assert question["prompt"] == "Publish cats?" and question["context"]["choices"] == ["yes", "no"]
        assert graphs.nodes() == ["approve", follows]
        assert values_of(ended.end["result"])["decision"] == answer
    assert digests(graphs.folder) == before


def test_a_thread_that_was_answered_gets_another_answer_in_a_fork(graphs: Graphs) -> None:
    graphs.run(graphs.request("resume", "approval", "approval", typed={"answers": {"": "yes"}}))
    waiting = len(checkpoints(graphs.folder, "approval")) - 3
    ended = graphs.run(graphs.request("fork", "approval", "approval", waiting), "no")
    assert graphs.nodes() == ["approve", "approve", "drop"]
    assert values_of(ended.end["result"])["decision"] == "no"


def test_a_fork_continues_inside_an_interrupted_subgraph(graphs: Graphs) -> None:
    ended = graphs.run(graphs.request("fork", "nested", "nested"), "no")
    assert graphs.nodes() == ["after", "approve", "drop"]
    assert "inner/approve" in [event["node"] for event in ended.of("node_started")]


def test_a_fork_from_the_first_checkpoint_runs_everything(graphs: Graphs) -> None:
    graphs.completed(graphs.request("fork", "fan", "fan", 0))
    assert graphs.nodes() == ["end", "left", "right", "start"]

"""Resuming LangGraph's threads in the user's store, and new runs there."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.engine_runs.graphs import Graphs, checkpoints


def test_only_the_failed_node_of_a_fan_out_runs_again(graphs: Graphs) -> None:
    ended = graphs.run(graphs.request("resume", "fan", "failed"))
    assert graphs.nodes() == ["end", "right"]
    assert ended.of("steps")[0]["steps"][0]["unit"] == "right"
    notes = json.loads(ended.end["result"])["notes"]
    assert notes == ["start on cats", "left on cats", "right on cats", "end on cats"]


def test_a_failure_is_reported_and_can_be_resumed(graphs: Graphs) -> None:
    (graphs.folder / "fail-right").touch()
    ended = graphs.run(graphs.request("resume", "fan", "failed"))
    assert ended.end["status"] == "failed" and "right fails" in ended.end["error"]
    (failed,) = ended.of("node_failed")
    assert (failed["node"], failed["error"]) == ("right", "ValueError: right fails")
    (graphs.folder / "fail-right").unlink()
    graphs.run(graphs.request("resume", "fan", "failed"))
    assert graphs.nodes() == ["end", "right"]


def test_an_answer_continues_the_thread(graphs: Graphs) -> None:
    ended = graphs.run(graphs.request("resume", "approval", "approval", typed={"answers": {"": "yes"}}))
    assert graphs.nodes() == ["approve", "publish"] and not ended.of("question")
    assert checkpoints(graphs.folder, "approval")[-1] == ended.of("checkpoint")[-1]["id"]


def test_an_answer_without_a_question_is_refused(graphs: Graphs) -> None:
    ended = graphs.run(graphs.request("fork", "fan", "fan", 1, typed={"answers": {"": "yes"}}))
    assert "No interrupt waits" in ended.end["error"] and graphs.nodes() == []


def test_only_the_last_checkpoint_of_a_thread_is_resumed(graphs: Graphs) -> None:
    ended = graphs.run(graphs.request("resume", "fan", "fan", 1))
    assert "Only the last checkpoint" in ended.end["error"] and graphs.nodes() == []


def test_a_finished_thread_has_nothing_to_resume(graphs: Graphs) -> None:
    assert "Nothing is left" in graphs.run(graphs.request("resume", "fan", "fan")).end["error"]


def test_a_new_turn_continues_a_thread(graphs: Graphs) -> None:
    before = checkpoints(graphs.folder, "fan")
    ended = graphs.run(graphs.request("run", "fan", "fan", inputs={"topic": "mice"}))
    assert ended.of("checkpoint")[0]["parent"] == before[-1]
    assert json.loads(ended.end["result"])["notes"][-1] == "end on mice"


@pytest.mark.parametrize(("graph", "ran"), [("awaited", 2), ("make_graph", 4), ("builder", 4)])
def test_async_graphs_factories_and_uncompiled_graphs_run(graphs: Graphs, graph: str, ran: int) -> None:
    ended = graphs.completed(graphs.request("run", graph, inputs={"topic": "mice"}))
    assert len(graphs.nodes()) == ran
    assert len({one["thread"] for one in ended.of("checkpoint")}) == 1


def test_a_location_that_became_a_link_is_not_written_to(graphs: Graphs, tmp_path: Path) -> None:
    request = graphs.request("resume", "fan", "failed")
    moved = tmp_path / "moved.sqlite"
    graphs.store.rename(moved)
    graphs.store.symlink_to(moved)
    assert "is now a link" in graphs.run(request).end["error"] and graphs.nodes() == []


def test_a_database_of_something_else_is_not_written_to(graphs: Graphs) -> None:
    request = graphs.request("run", "fan", inputs={"topic": "mice"})
    graphs.store.unlink()
    with sqlite3.connect(graphs.store) as connection:
        connection.execute("CREATE TABLE checkpoints (id TEXT)")
    before = graphs.store.read_bytes()
    assert "without LangGraph's tables" in graphs.run(request).end["error"]
    assert graphs.store.read_bytes() == before and graphs.nodes() == []


def test_a_fork_of_several_sends_runs_all_of_them(graphs: Graphs) -> None:
    ended = graphs.completed(graphs.request("fork", "spread", "spread", steps=["work", "work 2"]))
    assert graphs.nodes() == ["end", "work-a", "work-b"]
    assert sorted(one["node"] for one in ended.of("node_completed")) == ["end", "work", "work 2"]


def test_several_interrupts_are_answered_one_by_one(graphs: Graphs) -> None:
    ended = graphs.run(graphs.request("fork", "several", "several"), "one", "two")
    if graphs.version < (0, 4):
        # LangGraph gives them no ids, and fails at the first answer.
        assert "cannot distinguish their answers" in ended.end["error"] and graphs.nodes() == []
        return
    assert [question["prompt"] for question in ended.of("question")] == ["first", "second"]
    notes = json.loads(ended.end["result"])["notes"]
    assert notes == ["first got one", "second got two", "end on cats"]
    ids = [question["context"]["interrupt"] for question in ended.of("question")]
    answers = dict(zip(ids, ("three", "four"), strict=True))
    resumed = graphs.run(graphs.request("resume", "several", "several", typed={"answers": answers}))
    assert json.loads(resumed.end["result"])["notes"][:2] == ["first got three", "second got four"]
    assert graphs.nodes() == ["end", "first", "second"]

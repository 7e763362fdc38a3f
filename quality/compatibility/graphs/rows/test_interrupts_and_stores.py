"""Answers, subgraphs, encryption and other writers: where LangGraph itself cannot or does something else."""

from typing import Any

import pytest

from quality.compatibility.graphs.rows.scenarios import CATS, DOGS
from quality.compatibility.graphs.table import CELL, ROW
from tests.engine_runs.graphs import NODES, PROJECT, environment
from tests.engine_runs.prewarmed import launched
from tests.engine_runs.sides import BY_LANGGRAPH, Action, Side, Store

THREAD, OTHERS = "thread", "others"
Record = Any


@pytest.fixture
def ours(store: Store) -> Side:
    """A copy with a thread that waits for an approval."""
    return copied(store, "graphs:approval")


def copied(store: Store, graph: str, **options: Any) -> Side:
    """A copy of the store, after a first turn of the thread."""
    store.recorded.run_langgraph(graph, THREAD, [{"input": CATS}], **options)
    store.recorded.forget()
    return store.copy("ours")


def fork(side: Side, graph: str, *answers: str, **options: Any) -> Any:
    """The result of a fork of the thread's last checkpoint."""
    ended = side.run(side.request("fork", graph, THREAD, **options) | {"accepted_effects": ["*"]}, *answers)
    assert ended.end["status"] == "succeeded", ended.end
    return ended.end["result"]


def test_two_answers_to_one_interrupt(ours: Side, store: Store, record_property: Record) -> None:
    record_property(ROW, f"two answers to one interrupt ({store.name})")
    before = ours.rows()
    for answer, follows in (("yes", "publish"), ("no", "drop")):
        assert f'"decision": "{answer}"' in fork(ours, "graphs:approval", answer)
        assert ours.nodes() == ["approve", follows]
        # The model that follows is sent the same, whatever the other fork was answered.
        assert [follows in line for line in ours.sent()] == [True]
    assert ours.rows() == before
    theirs = store.copy("theirs")
    waiting = theirs.checkpoints(THREAD)[-1]
    actions = [{"at": waiting, "answer": answer} for answer in ("yes", "no")]
    theirs.run_langgraph("graphs:approval", THREAD, actions)
    if theirs.nodes() == ["approve", "approve", "publish", "publish"]:
        record_property(CELL, "pass; LangGraph reuses the first answer")


def test_several_interrupts_at_once(store: Store, record_property: Record) -> None:
    record_property(ROW, f"several interrupts at once ({store.name})")
    ours = copied(store, "graphs:several")
    if ours.version < (0, 4):
        request = ours.request("fork", "graphs:several", THREAD)
        assert ours.run(request, "one", "two").end["status"] == "failed" and ours.nodes() == []
        record_property(CELL, "refused; LangGraph fails")
        return
    found = fork(ours, "graphs:several", "one", "two")
    theirs = store.copy("theirs")
    done = theirs.run_langgraph("graphs:several", THREAD, [{"answer": ["one", "two"]}])
    assert done["result"]["notes"] == ["first got one", "second got two", "end on cats"]
    assert all(one in found for one in done["result"]["notes"])
    assert ours.nodes() == theirs.nodes() and ours.sent() == theirs.sent()


def test_an_interrupted_subgraph_with_its_state_edited(store: Store, record_property: Record) -> None:
    record_property(ROW, f"interrupted subgraph with its state edited ({store.name})")
    ours = copied(store, "graphs:nested")
    namespace, before = ours.namespace(THREAD), ours.rows()
    last = ours.checkpoints(THREAD, namespace)[-1]
    request = ours.request("fork", "graphs:nested", THREAD, state=DOGS) | {"accepted_effects": ["*"]}
    request["checkpoint"] = {"id": last, "source": f"{ours.location['path']}#{THREAD}/{namespace}/{last}"}
    ended = ours.run(request, "no")
    assert [one["prompt"] for one in ended.of("question")] == ["Publish dogs?"] and ours.rows() == before
    theirs = store.copy("theirs")
    # The edit makes the stored question outdated, so it is asked again first.
    actions: list[Action] = [{"values": DOGS, "inner": True, "run": True}, {"answer": "no"}]
    done = theirs.run_langgraph("graphs:nested", THREAD, actions)
    assert ours.nodes() == theirs.nodes() == ["after", "approve", "approve", "drop"]
    assert ours.sent() == theirs.sent()
    assert all(f'"{one}"' in ended.end["result"] for one in done["result"]["notes"])


def test_an_encrypted_value(store: Store, record_property: Record) -> None:
    record_property(ROW, f"encrypted value ({store.name})")
    ours = copied(store, "graphs:fan", serializer="encrypted")
    before = ours.rows()
    request = ours.request("fork", "graphs:fan", THREAD, 2)
    assert "is encrypted" in ours.run(request | {"accepted_effects": ["*"]}).end["error"]
    assert ours.nodes() == [] and ours.rows() == before
    theirs = store.copy("theirs")
    theirs.run_langgraph(
        "graphs:fan", THREAD, [{"at": theirs.checkpoints(THREAD)[2], "run": True}], serializer="encrypted"
    )
    assert theirs.nodes() == ["end", "left", "right"]
    record_property(CELL, "refused; LangGraph has the key")


def test_another_process_writes_meanwhile(ours: Side, store: Store, record_property: Record) -> None:
    record_property(ROW, f"fork and resume while another process writes ({store.name})")
    meanwhile = ours.folder / "meanwhile"
    meanwhile.mkdir()
    turns = '[{"input": {"topic": "mice"}}' + ', {"input": {"topic": "mice"}}' * 29 + "]"
    arguments = [ours.address, "graphs:fan", OTHERS, turns, "{}"]
    variables = environment(meanwhile)
    writer = launched(ours.engine, BY_LANGGRAPH, arguments, PROJECT, variables, meanwhile / "log.txt")
    before = ours.rows(THREAD)
    fork(ours, "graphs:approval", "no")
    assert ours.nodes() == ["approve", "drop"] and ours.rows(THREAD) == before
    resume = ours.request("resume", "graphs:approval", THREAD, typed={"answers": {"": "yes"}})
    ended = ours.run(resume | {"accepted_effects": ["*"]})
    assert ended.end["status"] == "succeeded" and ours.nodes() == ["approve", "publish"]
    assert set(before) <= set(ours.rows(THREAD))
    assert writer.wait(240) == 0, (meanwhile / "log.txt").read_text()[-1000:]
    # Both have stored everything.
    assert (meanwhile / NODES).read_text().split().count("end") == 30
    assert len(ours.checkpoints(OTHERS)) == 30 * 5

"""A stateful subgraph (``checkpointer=True``) starts each turn with its state of the previous one."""

import json

import pytest

from tests.engine_runs.graphs import Graphs, digests
from tests.engine_runs.runs import Ended

OPENED = """
import json, sqlite3, memory
from langgraph.checkpoint.sqlite import SqliteSaver
connection = sqlite3.connect(sys.argv[1], check_same_thread=False)
graph = memory.remembering_graph().compile(checkpointer=SqliteSaver(connection))
config = {"configurable": {"thread_id": "memory"}}
"""
TURNS = """
for topic in "abc":
    graph.invoke({"topic": topic}, config)
connection.close()
"""
FORK = """
config["configurable"] |= {"checkpoint_id": sys.argv[2], "checkpoint_ns": ""}
changed = graph.update_state(config, {"topic": "x"})
print(json.dumps(graph.invoke(None, changed)["notes"]))
"""
# Each turn writes an input, the start of the graph, and the end of the subgraph.
IN_SECOND_TURN = 4
ENTRY_POINT = "memory:remembering"


def can_replay(graphs: Graphs) -> bool:
    """Whether this version of LangGraph begins a subgraph with what it remembered at a checkpoint."""
    return graphs.version >= (1, 1)


def notes(ended: Ended) -> list[str]:
    found: list[str] = json.loads(ended.end["result"])["notes"]
    return found


@pytest.fixture
def remembering(graphs: Graphs) -> Graphs:
    """Three turns of one thread."""
    graphs.by_engine(OPENED + TURNS, str(graphs.store))
    return graphs


@pytest.mark.parametrize(
    ("state", "topic"), [({"topic": "x"}, "x"), (None, "b")], ids=["edited", "unchanged"]
)
def test_a_fork_remembers_what_was_before_it_and_nothing_later(
    remembering: Graphs, state: dict[str, str] | None, topic: str
) -> None:
    before = digests(remembering.folder)
    request = remembering.request("fork", ENTRY_POINT, "memory", IN_SECOND_TURN, state=state)
    remembered = ["a"] if can_replay(remembering) else []
    assert notes(remembering.completed(request)) == [*remembered, topic]
    assert digests(remembering.folder) == before


def test_the_preflight_check_names_subgraphs_that_forget(remembering: Graphs) -> None:
    request = remembering.request("preflight", ENTRY_POINT, "memory", IN_SECOND_TURN)
    found = remembering.run(request).of("preflight")[0]["report"]["notes"]
    forgotten = [note["detail"] for note in found if note["what"] == "memory"]
    assert forgotten == ([] if can_replay(remembering) else ["inner"])


def test_langgraph_itself_does_the_same_where_it_can(remembering: Graphs) -> None:
    at = remembering.checkpoints("memory")[IN_SECOND_TURN]
    printed = remembering.by_engine(OPENED + FORK, str(remembering.store), at)
    # Earlier versions run no node of the subgraph, and return what it remembers.
    assert (json.loads(printed.splitlines()[-1]) == ["a", "x"]) == can_replay(remembering)


def test_a_fork_of_the_first_turn_remembers_nothing(remembering: Graphs) -> None:
    request = remembering.request("fork", ENTRY_POINT, "memory", 1, state={"topic": "x"})
    assert notes(remembering.completed(request)) == ["x"]


def test_a_new_turn_in_the_thread_remembers_all(remembering: Graphs) -> None:
    request = remembering.request("run", ENTRY_POINT, "memory", inputs={"topic": "d"})
    assert notes(remembering.completed(request)) == ["a", "b", "c", "d"]

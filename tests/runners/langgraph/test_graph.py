"""The runner says what a project's code compiles to, without running a node."""

from typing import Any

from tests.engine_runs.graphs import Graphs


def graph_of(graphs: Graphs, name: str) -> dict[str, Any]:
    """The graph that the check of a new run reports."""
    request = graphs.request("run", name)
    (found,) = graphs.run({**request, "kind": "preflight"}).of("preflight")
    assert found["report"]["blocks"] == [] and graphs.nodes() == []
    graph: dict[str, Any] = found["report"]["graph"]
    return graph


def test_the_graph_of_the_code_has_conditional_edges(graphs: Graphs) -> None:
    found = graph_of(graphs, "approval")
    # Old versions leave out an end that no edge leads to.
    assert {*found["nodes"], "__end__"} == {"__end__", "__start__", "approve", "draft", "drop", "publish"}
    conditional = {
        (first, second) for first, second, is_conditional, _label in found["edges"] if is_conditional
    }
    assert conditional == {("approve", "drop"), ("approve", "publish")}
    assert ["draft", "approve", False, ""] in found["edges"]


def test_the_graph_of_the_code_has_the_nodes_of_its_subgraphs(graphs: Graphs) -> None:
    if graphs.version < (0, 3):
        # It cannot draw an inner graph without an edge to its end.
        assert "inner" in graph_of(graphs, "nested")["nodes"]
        return
    found = graph_of(graphs, "nested")
    assert {"before", "inner/draft", "inner/approve", "after"} <= set(found["nodes"])
    pairs = {(first, second) for first, second, *_more in found["edges"]}
    assert {("before", "inner/draft"), ("inner/publish", "after"), ("inner/drop", "after")} <= pairs
    assert not any(name.startswith("inner/__") for pair in pairs for name in pair)

"""The nodes and edges of a compiled graph, with those of the graphs inside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

# As many as Forkline draws (viewer/records/lineage/graphs.py).
MAX_NODES, MAX_EDGES = 200, 1000
MAX_NAME, MAX_LABEL = 100, 60
START, END = "__start__", "__end__"

# An edge: the nodes, whether it is conditional, and the name of the condition's result.
Edge = tuple[str, str, bool, str]


def compiled_graph(graph: Any) -> dict[str, Any]:
    """Return the nodes and edges as plain values; empty if the graph cannot be drawn or is too large.

    A node inside another graph is named after that graph's node, as in ``research/search``. The start and
    end nodes of inner graphs are left out, and the edges through them are joined.
    """
    try:
        drawn = _drawn(graph)
        nodes = [_name(str(key)) for key in drawn.nodes]
        edges = [
            (_name(str(edge.source)), _name(str(edge.target)), bool(edge.conditional), str(edge.data or ""))
            for edge in drawn.edges
        ]
    except Exception:
        # Drawing calls code of the project's runnables, which may raise anything.
        return {}
    for node in [node for node in nodes if _is_inner_end(node)]:
        edges = list(_without(node, edges))
    nodes = [node for node in nodes if not _is_inner_end(node)]
    if len(nodes) > MAX_NODES or len(edges) > MAX_EDGES:
        return {}
    return {
        "nodes": [node[:MAX_NAME] for node in nodes],
        "edges": [
            [first[:MAX_NAME], second[:MAX_NAME], is_conditional, label[:MAX_LABEL]]
            for first, second, is_conditional, label in dict.fromkeys(edges)
        ],
    }


def _drawn(graph: Any) -> Any:
    """Return the engine's own drawing, with the inner graphs if this version can draw them."""
    try:
        return graph.get_graph(xray=True)
    except Exception:
        # Old versions fail if no node of an inner graph leads to its end.
        return graph.get_graph()


def _name(key: str) -> str:
    """Return a node's name as in a run's events. The engine separates levels with a colon."""
    return key.replace(":", "/")


def _is_inner_end(node: str) -> bool:
    graph, _slash, name = node.rpartition("/")
    return bool(graph) and name in (START, END)


def _without(node: str, edges: Sequence[Edge]) -> Iterator[Edge]:
    """Yield the edges, with those to and from this node joined."""
    arriving = [edge for edge in edges if edge[1] == node]
    leaving = [edge for edge in edges if edge[0] == node]
    yield from (edge for edge in edges if node not in edge[:2])
    for first, _node, is_conditional, label in arriving:
        for _node, second, leaves_conditionally, further in leaving:
            yield first, second, is_conditional or leaves_conditionally, label or further

"""Which unit of work followed which, laid out by ``dot``, which receives generated ids and no text."""

from collections.abc import Sequence
from dataclasses import dataclass

import graphviz

from viewer.lineage.drawing import DOT_SECONDS, NoLayout, ask_dot, inches

MAX_UNITS, MAX_EDGES = 200, 1_000
# Inches of a box: for each character of its name, and around it.
_INCHES_A_CHARACTER, _INCHES_AROUND = 0.09, 0.25


@dataclass(frozen=True, slots=True)
class Box:
    """Where the box of a unit is, in pixels. ``number`` is its position in the list of names."""

    number: int
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class UnitDrawing:
    """Boxes, and the SVG paths of the edges between them, in pixels."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    paths: tuple[str, ...]


def draw_units(names: Sequence[str], edges: Sequence[tuple[int, int]]) -> UnitDrawing:
    """The layout of these units, from left to right. Raises NoLayout."""
    if len(names) > MAX_UNITS or len(edges) > MAX_EDGES:
        raise NoLayout("drawing.too_many_forks")
    graph = graphviz.Digraph(
        graph_attr={"rankdir": "LR", "nodesep": "0.2", "ranksep": "0.45", "splines": "true"},
        node_attr={"shape": "box", "label": "", "height": "0.36", "fixedsize": "true"},
        edge_attr={"arrowhead": "none"},
    )
    for number, name in enumerate(names):
        graph.node(f"n{number}", width=f"{len(name) * _INCHES_A_CHARACTER + _INCHES_AROUND:.2f}")
    for first, second in edges:
        graph.edge(f"n{first}", f"n{second}")
    width = height = 0.0
    boxes: list[Box] = []
    paths: list[str] = []
    for words in ask_dot(str(graph.source), DOT_SECONDS):
        if words[0] == "graph":
            width, height = inches(words[2]), inches(words[3])
        elif words[0] == "node":
            x, y, box_width, box_height = (inches(word) for word in words[2:6])
            boxes.append(Box(int(words[1][1:]), x, y, box_width, box_height))
        elif words[0] == "edge":
            points = [inches(word) for word in words[4 : 4 + 2 * int(words[3])]]
            pairs = [f"{x:g} {y:g}" for x, y in zip(points[::2], points[1::2], strict=True)]
            paths.append(f"M{pairs[0]}C{' '.join(pairs[1:])}")
    return UnitDrawing(width, height, tuple(boxes), tuple(paths))

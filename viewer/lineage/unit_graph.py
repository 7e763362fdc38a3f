"""Units of work and the edges between them, laid out by ``dot``, which receives generated ids and no text."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import graphviz

from viewer.lineage.drawing import DOT_SECONDS, NoLayout, ask_dot, inches

MAX_UNITS, MAX_EDGES = 200, 1_000
# Inches of a box: for each character of its name, and around it.
_INCHES_A_CHARACTER, _INCHES_AROUND = 0.09, 0.25
# Pixels between a group's frame and the boxes in it, and above them for its title.
_PADDING, _TITLE = 9, 14
# Separates the levels of a unit inside another one.
SEPARATOR = "/"


@dataclass(frozen=True, slots=True)
class Box:
    """Where the box of a unit is, in pixels. ``number`` is its position in the list of names."""

    number: int
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Frame:
    """The frame around the units inside another one, in pixels, from its upper left corner."""

    # The name of the unit that contains them.
    group: str
    x: float
    y: float
    width: float
    height: float

    @property
    def title(self) -> str:
        """The last part of its name."""
        return self.group.rpartition(SEPARATOR)[2]


@dataclass(frozen=True, slots=True)
class EdgePath:
    """The SVG path of an edge, in pixels, and the positions of the units that it connects."""

    first: int
    second: int
    path: str


@dataclass(frozen=True, slots=True)
class UnitDrawing:
    """Boxes, the edges between them, and the frames around them, outer ones first."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    paths: tuple[EdgePath, ...]
    frames: tuple[Frame, ...] = ()


def draw_units(names: Sequence[str], shown: Sequence[str], edges: Sequence[tuple[int, int]]) -> UnitDrawing:
    """The layout of these units, from top to bottom. Raises NoLayout.

    ``shown`` are the texts in the boxes. Units named ``outer/inner`` are kept together and get a frame.
    """
    if len(names) > MAX_UNITS or len(edges) > MAX_EDGES:
        raise NoLayout("drawing.too_many_units")
    width = height = 0.0
    boxes: list[Box] = []
    paths: list[EdgePath] = []
    for words in ask_dot(_source(names, shown, edges), DOT_SECONDS):
        if words[0] == "graph":
            width, height = inches(words[2]), inches(words[3])
        elif words[0] == "node":
            x, y, box_width, box_height = (inches(word) for word in words[2:6])
            boxes.append(Box(int(words[1][1:]), x, y, box_width, box_height))
        elif words[0] == "edge":
            points = [inches(word) for word in words[4 : 4 + 2 * int(words[3])]]
            pairs = [f"{x:g} {y:g}" for x, y in zip(points[::2], points[1::2], strict=True)]
            path = f"M{pairs[0]}C{' '.join(pairs[1:])}"
            paths.append(EdgePath(int(words[1][1:]), int(words[2][1:]), path))
    return UnitDrawing(width, height, tuple(boxes), tuple(paths), tuple(_frames(names, boxes)))


def _source(names: Sequence[str], shown: Sequence[str], edges: Sequence[tuple[int, int]]) -> str:
    """The input of ``dot``."""
    graph = graphviz.Digraph(
        graph_attr={"nodesep": "0.2", "ranksep": "0.4", "splines": "true"},
        node_attr={"shape": "box", "label": "", "height": "0.36", "fixedsize": "true"},
        edge_attr={"arrowhead": "none"},
    )
    for number, text in enumerate(shown):
        graph.node(f"n{number}", width=f"{len(text) * _INCHES_A_CHARACTER + _INCHES_AROUND:.2f}")
    _add_groups(graph, {number: name.split(SEPARATOR)[:-1] for number, name in enumerate(names)}, [0])
    for first, second in edges:
        graph.edge(f"n{first}", f"n{second}")
    return str(graph.source)


def _add_groups(graph: graphviz.Digraph, levels: Mapping[int, list[str]], count: list[int]) -> None:
    """Keep the units of a group together. ``count`` holds the number of groups so far, for their ids."""
    groups: dict[str, dict[int, list[str]]] = defaultdict(dict)
    for number, outer in levels.items():
        if outer:
            groups[outer[0]][number] = outer[1:]
    for members in groups.values():
        count[0] += 1
        # The margin has room for the frame and its title.
        with graph.subgraph(name=f"cluster{count[0]}", graph_attr={"margin": "16"}) as inner:
            for number in members:
                inner.node(f"n{number}")
            _add_groups(inner, members, count)


def _frames(names: Sequence[str], boxes: Sequence[Box]) -> Iterator[Frame]:
    """The frame of each group, around its boxes and the frames inside it."""
    members: dict[str, list[Box]] = defaultdict(list)
    for box in boxes:
        levels = names[box.number].split(SEPARATOR)[:-1]
        for depth in range(1, len(levels) + 1):
            members[SEPARATOR.join(levels[:depth])].append(box)
    for group in sorted(members):
        deepest = max(names[box.number].count(SEPARATOR) for box in members[group])
        around = deepest - group.count(SEPARATOR)
        left = min(box.x - box.width / 2 for box in members[group]) - _PADDING * around
        right = max(box.x + box.width / 2 for box in members[group]) + _PADDING * around
        top = min(box.y - box.height / 2 for box in members[group]) - _PADDING - _TITLE * around
        bottom = max(box.y + box.height / 2 for box in members[group]) + _PADDING * around
        yield Frame(group, left, top, right - left, bottom - top)

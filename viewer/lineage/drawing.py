"""Positions -> the lines and dots of an SVG. Pure, but for ``dot``, which lays out the overview.

Two drawings come out of it: the lanes next to a window of rows, newest on top, and the overview of a
whole run in which each chain without a fork is one node. Neither contains text.
"""

import shutil
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import graphviz

from viewer.lineage.tree import Edge
from viewer.messages.message import UserFacingError

# A fold represents several checkpoints.
Shape = Literal["done", "start", "end", "failure", "edit", "fold"]

ROW = 30
LANE = 18
MARGIN = 22
# With more lanes than this, they are drawn closer together.
MAX_FULL_LANES = 10
CURVE = 9
GAP_STUB = 22

DOT_SECONDS = 2.0
# With more nodes than this, the graph is not drawn: dot takes too long.
MAX_OVERVIEW_NODES = 1500
POINTS_AN_INCH = 72


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A checkpoint of a run, with its position and its parent's. ``colour`` is 0 to 7."""

    key: str
    row: int
    lane: int
    colour: int
    shape: Shape
    edge: Edge
    parent_row: int | None = None
    parent_lane: int | None = None
    running: bool = False
    # Whether rows between it and its parent are collapsed.
    hides_rows: bool = False
    muted: bool = False


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """SVG path data. ``edge`` determines the stroke: inferred is dashed, missing and folded are dotted."""

    path: str
    colour: int
    edge: Edge | Literal["folded"]
    muted: bool = False


@dataclass(frozen=True, slots=True)
class Dot:
    """The dot of a checkpoint, in pixels."""

    key: str
    x: float
    y: float
    colour: int
    shape: Shape
    running: bool
    muted: bool = False


@dataclass(frozen=True, slots=True)
class Drawing:
    """Lengths are in CSS pixels."""

    width: float
    height: float
    lines: tuple[GraphEdge, ...]
    dots: tuple[Dot, ...]


def lane_columns(lanes: int) -> int:
    """The width of the drawing for this number of lanes, in full lanes."""
    return max(1, min(lanes, MAX_FULL_LANES))


def draw_window(nodes: Sequence[GraphNode], passing: Sequence[GraphNode], lanes: int) -> Drawing:
    """Return the lanes of consecutive rows, which are given newest first.

    ``passing`` are newer checkpoints above the window whose lines run into it. Only their lines are
    drawn. Lines end at the window's edges.
    """
    if not nodes:
        return Drawing(0, 0, (), ())
    plot = _plot(nodes, max(node.row for node in nodes), lanes)
    lines = [line for node in (*passing, *nodes) if (line := plot.line(node)) is not None]
    dots = tuple(plot.dot(node) for node in nodes if node.shape != "fold")
    return Drawing(plot.width, len(nodes) * ROW, tuple(lines), dots)


def draw_dots(nodes: Sequence[GraphNode], lanes: int) -> Drawing:
    """The same without lines, for rows that were picked out of their run."""
    plot = _plot(nodes, 0, lanes)
    dots = tuple(plot.dot(node) for node in nodes if node.shape != "fold")
    return Drawing(plot.width, len(nodes) * ROW, (), dots)


def _plot(nodes: Sequence[GraphNode], top: int, lanes: int) -> "_Plot":
    places = {node.row: place for place, node in enumerate(nodes)}
    return _Plot(places, {node.row for node in nodes if node.shape == "fold"}, top, lanes)


class _Plot:
    """The positions of rows and lanes, in pixels.

    ``places`` maps rows to their line on the page. ``folds`` are rows that represent several.
    """

    def __init__(self, places: Mapping[int, int], folds: Collection[int], top: int, lanes: int) -> None:
        self._places = places
        self._folds = folds
        self._top = top
        self._height = len(places) * ROW
        # What is not a row, such as a failed attempt, has a negative number.
        self._bottom = min((row for row in places if row >= 0), default=0)
        columns = lane_columns(lanes)
        self._step = LANE if lanes <= columns else LANE * (columns - 1) / (lanes - 1)
        self.width = 2 * MARGIN + LANE * (columns - 1)

    def x(self, lane: int) -> float:
        return round(MARGIN + lane * self._step, 1)

    def y(self, row: int) -> float:
        if row in self._places:
            return self._places[row] * ROW + ROW / 2
        if row < self._bottom:
            return self._height + (self._bottom - row) * ROW - ROW / 2
        return (self._top - row) * ROW + ROW / 2

    def dot(self, node: GraphNode) -> Dot:
        at = self.x(node.lane), self.y(node.row)
        return Dot(node.key, *at, node.colour, node.shape, node.running, node.muted)

    def line(self, node: GraphNode) -> GraphEdge | None:
        """Return the line from a node down to its parent, or the stub of a missing one."""
        x, y = self.x(node.lane), max(self.y(node.row), 0)
        if node.parent_row is None or node.parent_lane is None:
            if node.edge is not Edge.MISSING:
                return None
            return GraphEdge(f"M{x:g} {y:g}V{y + GAP_STUB:g}", node.colour, node.edge, node.muted)
        path = self._path(x, y, self.x(node.parent_lane), self.y(node.parent_row))
        is_folded = node.hides_rows or node.row in self._folds or node.parent_row in self._folds
        return GraphEdge(path, node.colour, "folded" if is_folded else node.edge, node.muted)

    def _path(self, x: float, y: float, parent_x: float, parent_y: float) -> str:
        if x == parent_x or parent_y > self._height + ROW:
            return f"M{x:g} {y:g}V{min(parent_y, self._height):g}"
        bend = -CURVE if parent_x < x else CURVE
        return f"M{x:g} {y:g}V{parent_y - CURVE:g}Q{x:g} {parent_y:g} {x + bend:g} {parent_y:g}H{parent_x:g}"


@dataclass(frozen=True, slots=True)
class Chain:
    """Consecutive checkpoints of one branch that nothing forks from, as one node of the overview.

    ``keys`` are oldest first; the last is the one that a click opens.
    """

    keys: tuple[str, ...]
    colour: int
    shape: Shape
    edge: Edge
    running: bool
    parent: int | None


def collapse(nodes: Sequence[GraphNode]) -> list[Chain]:
    """Return the chains of a run's nodes, which are given oldest first. Parents are before their children."""
    by_row = {node.row: node for node in nodes}
    children: dict[int, int] = {}
    for node in nodes:
        if node.parent_row is not None:
            children[node.parent_row] = children.get(node.parent_row, 0) + 1
    members: list[list[GraphNode]] = []
    chain_of: dict[int, int] = {}
    parents: list[int | None] = []
    for node in nodes:
        parent = None if node.parent_row is None else by_row.get(node.parent_row)
        if parent is not None and _continues(parent, node, children):
            chain_of[node.row] = chain_of[parent.row]
            members[chain_of[node.row]].append(node)
        else:
            chain_of[node.row] = len(members)
            members.append([node])
            parents.append(None if parent is None else chain_of[parent.row])
    return [_chain(nodes, parent) for nodes, parent in zip(members, parents, strict=True)]


def _continues(parent: GraphNode, node: GraphNode, children: dict[int, int]) -> bool:
    return parent.colour == node.colour and children[parent.row] == 1 and node.edge is Edge.RECORDED


def _chain(nodes: Sequence[GraphNode], parent: int | None) -> Chain:
    last = nodes[-1]
    keys = tuple(node.key for node in nodes)
    running = any(node.running for node in nodes)
    return Chain(keys, last.colour, last.shape, nodes[0].edge, running, parent)


class NoLayout(UserFacingError):
    """The overview could not be laid out. The message says why; the lanes can still be drawn."""


def draw_overview(chains: Sequence[Chain], seconds: float = DOT_SECONDS) -> Drawing:
    """The chains as ``dot`` places them, each dot keyed by its chain's last checkpoint.

    Raises NoLayout where there is no ``dot``, where there are too many chains, or where it takes
    longer than ``seconds``.
    """
    if len(chains) > MAX_OVERVIEW_NODES:
        raise NoLayout("drawing.too_many_forks")
    graph = graphviz.Digraph(
        graph_attr={"rankdir": "LR", "nodesep": "0.3", "ranksep": "0.55", "splines": "true"},
        node_attr={"shape": "box", "label": "", "width": "1.7", "height": "0.5", "fixedsize": "true"},
        edge_attr={"arrowhead": "none", "tailport": "e", "headport": "w"},
    )
    for number, chain in enumerate(chains):
        graph.node(f"n{number}")
        if chain.parent is not None:
            graph.edge(f"n{chain.parent}", f"n{number}")
    return _drawn(chains, ask_dot(str(graph.source), seconds))


def ask_dot(source: str, seconds: float) -> Iterable[list[str]]:
    """The lines of dot's plain output, split into words."""
    program = shutil.which("dot")
    if program is None:
        raise NoLayout("drawing.graphviz_missing")
    try:
        answer = subprocess.run(
            [program, "-Tplain", "-y"],
            input=source,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=True,
        )
    except subprocess.TimeoutExpired:
        raise NoLayout("drawing.graphviz_timed_out") from None
    except (OSError, subprocess.CalledProcessError):
        raise NoLayout("drawing.graphviz_failed") from None
    return [line.split() for line in answer.stdout.splitlines()]


def _drawn(chains: Sequence[Chain], words: Iterable[list[str]]) -> Drawing:
    width = height = 0.0
    lines: list[GraphEdge] = []
    dots: list[Dot] = []
    for line in words:
        if line[0] == "graph":
            width, height = inches(line[2]), inches(line[3])
        elif line[0] == "node":
            chain = chains[int(line[1][1:])]
            at = (inches(line[2]), inches(line[3]))
            dots.append(Dot(chain.keys[-1], *at, chain.colour, chain.shape, chain.running))
        elif line[0] == "edge":
            chain = chains[int(line[2][1:])]
            points = [inches(word) for word in line[4 : 4 + 2 * int(line[3])]]
            pairs = [f"{x:g} {y:g}" for x, y in zip(points[::2], points[1::2], strict=True)]
            lines.append(GraphEdge(f"M{pairs[0]}C{' '.join(pairs[1:])}", chain.colour, chain.edge))
    return Drawing(width, height, tuple(lines), tuple(dots))


def inches(word: str) -> float:
    """An amount of inches, in pixels."""
    return round(float(word) * POINTS_AN_INCH, 1)

"""Positions -> the lines and dots of an SVG. Pure, but for ``dot``, which lays out the overview.

Two drawings come out of it: the lanes beside a window of rows, newest on top, and the overview of a
whole run in which every unforked chain is one node. Neither holds any text; the page writes it.
"""

import shutil
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import graphviz

from viewer.lineage.tree import Edge
from viewer.messages.message import UserFacingError

# A fold stands for several checkpoints that are not drawn one by one.
Shape = Literal["done", "start", "end", "failure", "edit", "fold"]

ROW = 30
LANE = 18
MARGIN = 22
# From here on the lanes move closer together, so that the list keeps its room.
MOST_FULL_LANES = 10
CURVE = 9
GAP_STUB = 22

DOT_SECONDS = 2.0
# Beyond this an overview is no longer one, and dot takes too long.
MOST_OVERVIEW_NODES = 1500
POINTS_AN_INCH = 72


@dataclass(frozen=True, slots=True)
class Knot:
    """One checkpoint of a run, where it stands and what it hangs on. ``colour`` is 0 to 7."""

    key: str
    row: int
    lane: int
    colour: int
    shape: Shape
    edge: Edge
    parent_row: int | None = None
    parent_lane: int | None = None
    running: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """SVG path data. ``edge`` says how it is stroked: inferred is dashed, missing and folded dotted."""

    path: str
    colour: int
    edge: Edge | Literal["folded"]


@dataclass(frozen=True, slots=True)
class Dot:
    """The dot of a checkpoint, in pixels."""

    key: str
    x: float
    y: float
    colour: int
    shape: Shape
    running: bool


@dataclass(frozen=True, slots=True)
class Drawing:
    """Lengths are in CSS pixels."""

    width: float
    height: float
    lines: tuple[Line, ...]
    dots: tuple[Dot, ...]


def lane_columns(lanes: int) -> int:
    """How many full lanes' width a run with so many lanes gets."""
    return max(1, min(lanes, MOST_FULL_LANES))


def draw_window(knots: Sequence[Knot], passing: Sequence[Knot], lanes: int) -> Drawing:
    """The lanes beside consecutive rows, which are given newest first.

    ``passing`` are newer checkpoints above the window whose lines run into it. Only their lines are
    drawn. Lines end at the window's edges.
    """
    if not knots:
        return Drawing(0, 0, (), ())
    plot = _plot(knots, max(knot.row for knot in knots), lanes)
    lines = [line for knot in (*passing, *knots) if (line := plot.line(knot)) is not None]
    dots = tuple(plot.dot(knot) for knot in knots if knot.shape != "fold")
    return Drawing(plot.width, len(knots) * ROW, tuple(lines), dots)


def draw_dots(knots: Sequence[Knot], lanes: int) -> Drawing:
    """The same without lines, for rows that were picked out of their run."""
    plot = _plot(knots, 0, lanes)
    dots = tuple(plot.dot(knot) for knot in knots if knot.shape != "fold")
    return Drawing(plot.width, len(knots) * ROW, (), dots)


def _plot(knots: Sequence[Knot], top: int, lanes: int) -> "_Plot":
    places = {knot.row: place for place, knot in enumerate(knots)}
    return _Plot(places, {knot.row for knot in knots if knot.shape == "fold"}, top, lanes)


class _Plot:
    """The positions of rows and lanes, in pixels.

    ``places`` maps rows to their line on the page. ``folds`` are rows that represent several.
    """

    def __init__(self, places: Mapping[int, int], folds: Collection[int], top: int, lanes: int) -> None:
        self._places = places
        self._folds = folds
        self._top = top
        self._height = len(places) * ROW
        # What is beside the rows, such as a failed attempt, has a negative number.
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

    def dot(self, knot: Knot) -> Dot:
        return Dot(knot.key, self.x(knot.lane), self.y(knot.row), knot.colour, knot.shape, knot.running)

    def line(self, knot: Knot) -> Line | None:
        """The line from a node down to its parent, or the stub of a gap."""
        x, y = self.x(knot.lane), max(self.y(knot.row), 0)
        if knot.parent_row is None or knot.parent_lane is None:
            if knot.edge is not Edge.MISSING:
                return None
            return Line(f"M{x:g} {y:g}V{y + GAP_STUB:g}", knot.colour, knot.edge)
        path = self._path(x, y, self.x(knot.parent_lane), self.y(knot.parent_row))
        is_folded = knot.row in self._folds or knot.parent_row in self._folds
        return Line(path, knot.colour, "folded" if is_folded else knot.edge)

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


def collapse(knots: Sequence[Knot]) -> list[Chain]:
    """The chains of a run, whose nodes are given oldest first. Parents come before their children."""
    by_row = {knot.row: knot for knot in knots}
    children: dict[int, int] = {}
    for knot in knots:
        if knot.parent_row is not None:
            children[knot.parent_row] = children.get(knot.parent_row, 0) + 1
    members: list[list[Knot]] = []
    chain_of: dict[int, int] = {}
    parents: list[int | None] = []
    for knot in knots:
        parent = None if knot.parent_row is None else by_row.get(knot.parent_row)
        if parent is not None and _continues(parent, knot, children):
            chain_of[knot.row] = chain_of[parent.row]
            members[chain_of[knot.row]].append(knot)
        else:
            chain_of[knot.row] = len(members)
            members.append([knot])
            parents.append(None if parent is None else chain_of[parent.row])
    return [_chain(nodes, parent) for nodes, parent in zip(members, parents, strict=True)]


def _continues(parent: Knot, knot: Knot, children: dict[int, int]) -> bool:
    return parent.colour == knot.colour and children[parent.row] == 1 and knot.edge is Edge.RECORDED


def _chain(nodes: Sequence[Knot], parent: int | None) -> Chain:
    last = nodes[-1]
    keys = tuple(knot.key for knot in nodes)
    running = any(knot.running for knot in nodes)
    return Chain(keys, last.colour, last.shape, nodes[0].edge, running, parent)


class NoLayout(UserFacingError):
    """The overview could not be laid out. The message tells why; the lanes still draw."""


def draw_overview(chains: Sequence[Chain], seconds: float = DOT_SECONDS) -> Drawing:
    """The chains as ``dot`` places them, each dot keyed by its chain's last checkpoint.

    Raises NoLayout where there is no ``dot``, where there are too many chains, or where it takes
    longer than ``seconds``.
    """
    if len(chains) > MOST_OVERVIEW_NODES:
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
    return _drawn(chains, _ask_dot(str(graph.source), seconds))


def _ask_dot(source: str, seconds: float) -> Iterable[list[str]]:
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
    lines: list[Line] = []
    dots: list[Dot] = []
    for line in words:
        if line[0] == "graph":
            width, height = _inches(line[2]), _inches(line[3])
        elif line[0] == "node":
            chain = chains[int(line[1][1:])]
            at = (_inches(line[2]), _inches(line[3]))
            dots.append(Dot(chain.keys[-1], *at, chain.colour, chain.shape, chain.running))
        elif line[0] == "edge":
            chain = chains[int(line[2][1:])]
            points = [_inches(word) for word in line[4 : 4 + 2 * int(line[3])]]
            pairs = [f"{x:g} {y:g}" for x, y in zip(points[::2], points[1::2], strict=True)]
            lines.append(Line(f"M{pairs[0]}C{' '.join(pairs[1:])}", chain.colour, chain.edge))
    return Drawing(width, height, tuple(lines), tuple(dots))


def _inches(word: str) -> float:
    """An amount of inches, in pixels."""
    return round(float(word) * POINTS_AN_INCH, 1)

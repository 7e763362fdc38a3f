"""Positions -> the lanes next to a window of rows, newest on top. A drawing contains no text."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from viewer.records.lineage.tree import ParentLink

# A fold represents several checkpoints.
Shape = Literal["done", "start", "end", "failure", "edit", "fold"]

ROW = 30
LANE = 18
MARGIN = 22
# With more lanes than this, they are drawn closer together.
MAX_FULL_LANES = 10
CURVE = 9
GAP_STUB = 22


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A checkpoint of a run, with its position and its parent's. ``colour`` is 0 to 7."""

    key: str
    row: int
    lane: int
    colour: int
    shape: Shape
    parent_link: ParentLink
    parent_row: int | None = None
    parent_lane: int | None = None
    running: bool = False
    # Whether rows between it and its parent are collapsed.
    hides_rows: bool = False
    muted: bool = False


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """SVG path data. ``stroke`` says how it is drawn: inferred is dashed, missing and folded are dotted."""

    path: str
    colour: int
    stroke: ParentLink | Literal["folded"]
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
    """The width of the drawing of this many lanes, in lanes of full width."""
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
    """Return the drawing without lines, for rows that are not consecutive."""
    plot = _plot(nodes, 0, lanes)
    dots = tuple(plot.dot(node) for node in nodes if node.shape != "fold")
    return Drawing(plot.width, len(nodes) * ROW, (), dots)


def _plot(nodes: Sequence[GraphNode], top: int, lanes: int) -> "_Plot":
    lines = {node.row: line for line, node in enumerate(nodes)}
    return _Plot(lines, {node.row for node in nodes if node.shape == "fold"}, top, lanes)


class _Plot:
    """The positions of rows and lanes, in pixels.

    ``lines`` maps rows to lines of the page. ``folds`` are rows that represent several checkpoints.
    """

    def __init__(self, lines: Mapping[int, int], folds: Collection[int], top: int, lanes: int) -> None:
        self._lines = lines
        self._folds = folds
        self._top = top
        self._height = len(lines) * ROW
        # Lines without a row, such as failed attempts, have negative numbers.
        self._bottom = min((row for row in lines if row >= 0), default=0)
        columns = lane_columns(lanes)
        self._step = LANE if lanes <= columns else LANE * (columns - 1) / (lanes - 1)
        self.width = 2 * MARGIN + LANE * (columns - 1)

    def x(self, lane: int) -> float:
        return round(MARGIN + lane * self._step, 1)

    def y(self, row: int) -> float:
        if row in self._lines:
            return self._lines[row] * ROW + ROW / 2
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
            if node.parent_link is not ParentLink.MISSING:
                return None
            return GraphEdge(f"M{x:g} {y:g}V{y + GAP_STUB:g}", node.colour, node.parent_link, node.muted)
        path = self._path(x, y, self.x(node.parent_lane), self.y(node.parent_row))
        is_folded = node.hides_rows or node.row in self._folds or node.parent_row in self._folds
        return GraphEdge(path, node.colour, "folded" if is_folded else node.parent_link, node.muted)

    def _path(self, x: float, y: float, parent_x: float, parent_y: float) -> str:
        if x == parent_x or parent_y > self._height + ROW:
            return f"M{x:g} {y:g}V{min(parent_y, self._height):g}"
        bend = -CURVE if parent_x < x else CURVE
        return f"M{x:g} {y:g}V{parent_y - CURVE:g}Q{x:g} {parent_y:g} {x + bend:g} {parent_y:g}H{parent_x:g}"

"""Lanes and rows of nodes, lines of a list with collapsed rows, and the drawing next to these lines. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from viewer.records.lineage.tree import LineageNode, ParentLink

# The ordered forest -> lane and row of each node, as ``git log --graph`` does it. Pure.
#
# row 5   │ ○      lane 1: a fork, open from its parent's row up to its own tip
# row 4   ● │
# row 3   │ ○
# row 2   ●─╯
# row 1   ●        lane 0: what the run began with
# row 0   ●
#
# Row 0 is the oldest. A strand is a node and the nodes that continue its branch; it stays on one lane.
# Free lanes are reused. Strands are placed in the order of their starts, so that a new fork does not move
# other strands.


# Further branches share the last lane, since more could not be distinguished.
MAX_LANES = 120


@dataclass(frozen=True, slots=True)
class Position:
    """The lane and row of a node, from 0."""

    lane: int
    row: int


def lay_out(nodes: Sequence[LineageNode]) -> dict[str, Position]:
    """The position of each node of one lineage, by key. The nodes are ordered oldest first."""
    rows = {node.key: row for row, node in enumerate(nodes)}
    strands = _strands(nodes, rows)
    lanes = _Lanes(len(nodes))
    own_branch = nodes[0].branch if nodes else ""
    positions: dict[str, Position] = {}
    for strand in strands:
        first = nodes[strand[0]]
        start = strand[0] if first.parent is None else rows[first.parent]
        # The first lane is for the branch that the run began on.
        lane = lanes.reserve(start, strand[-1], lowest=0 if first.branch == own_branch else 1)
        for row in strand:
            positions[nodes[row].key] = Position(lane, row)
    return positions


def _strands(nodes: Sequence[LineageNode], rows: dict[str, int]) -> list[list[int]]:
    """The strands, each as rows from its first node to its last."""
    has_children = {node.parent for node in nodes if node.parent is not None}
    heir: dict[str, int] = {}
    for row, node in enumerate(nodes):
        if node.parent is None or nodes[rows[node.parent]].branch != node.branch:
            continue
        held = heir.get(node.parent)
        # Prefer a child that has children; else the first.
        if held is None or (nodes[held].key not in has_children and node.key in has_children):
            heir[node.parent] = row
    strand_of: dict[int, list[int]] = {}
    strands: list[list[int]] = []
    for row, node in enumerate(nodes):
        if node.parent is not None and heir.get(node.parent) == row:
            strand = strand_of[rows[node.parent]]
            strand.append(row)
        else:
            strand = [row]
            strands.append(strand)
        strand_of[row] = strand
    return strands


class _Lanes:
    """The lanes that are reserved at each row: a segment tree of bit masks, one bit per lane.

    ``_whole`` holds lanes that are reserved at all rows of a tree node, ``_any`` at one of them or more.
    """

    def __init__(self, rows: int) -> None:
        self._size = 1 << max(rows - 1, 0).bit_length()
        self._whole = [0] * (2 * self._size)
        self._any = [0] * (2 * self._size)

    def reserve(self, first: int, last: int, lowest: int) -> int:
        """Reserve the lowest lane, at least ``lowest``, that is free from row ``first`` to ``last``."""
        cover = self._cover(first, last)
        taken = (1 << lowest) - 1
        for covered in cover:
            node = covered
            taken |= self._any[node]
            while node > 1:
                node >>= 1
                taken |= self._whole[node]
        lane = min((~taken & (taken + 1)).bit_length() - 1, MAX_LANES - 1)
        bit = 1 << lane
        for covered in cover:
            node = covered
            self._whole[node] |= bit
            while node and not self._any[node] & bit:
                self._any[node] |= bit
                node >>= 1
        return lane

    def _cover(self, first: int, last: int) -> list[int]:
        """Return the smallest set of tree nodes that covers exactly rows ``first`` to ``last``."""
        low, high = first + self._size, last + self._size + 1
        cover: list[int] = []
        while low < high:
            if low & 1:
                cover.append(low)
                low += 1
            if high & 1:
                high -= 1
                cover.append(high)
            low >>= 1
            high >>= 1
        return cover


# Rows of a run -> lines of its list, with collapsed rows hidden. Pure functions.
#
# row 5   ● main
# row 4   ●           ->   ● main, 2 collapsed
# row 3   ●                ┊
# row 2   ●─╮              ●─╮
#
# A stretch is a series of checkpoints of one branch between two forks: each but its newest one has exactly
# one child, which continues its branch. Only rows of a stretch are hidden, so every fork stays visible.


class OutlineRow(NamedTuple):
    """The values of a row that determine its line. ``key`` and ``parent`` identify checkpoints."""

    key: int
    row: int
    lane: int
    parent: int | None
    branch: str
    trigger: str
    # How the parent is known.
    link: str


@dataclass(frozen=True, slots=True)
class Collapse:
    """What is collapsed: branches, the stretches of some checkpoints, or every stretch but some."""

    branches: Collection[str] = ()
    # Keys of checkpoints.
    stretches: Collection[int] = ()
    everything: bool = False
    # If everything is collapsed, the stretches of these checkpoints are still shown.
    expanded: Collection[int] = ()
    # The triggers whose rows are hidden.
    triggers: Collection[str] = ()
    # Keys of checkpoints that are never hidden.
    kept: Collection[int] = ()

    @property
    def hides_rows(self) -> bool:
        """Whether any row may be hidden."""
        return bool(self.branches or self.stretches or self.everything or self.triggers)


@dataclass(slots=True)
class OutlineLine:
    """A visible row, and what it represents."""

    newest: OutlineRow
    # Its oldest row, to whose parent the line leads.
    oldest: OutlineRow
    # The number of rows of its stretch, if it is the newest of them.
    stretch: int = 0
    # The number of rows that are collapsed into it.
    hidden: int = 0
    # The visible row that it continues.
    parent: OutlineRow | None = None


@dataclass(frozen=True, slots=True)
class Outline:
    """The lines, newest first, and the newest row of each row's stretch, by key."""

    lines: list[OutlineLine]
    stretch_of: dict[int, int]


def outline_of(rows: Sequence[OutlineRow], collapse: Collapse) -> Outline:
    """Return the visible lines of rows that are given newest first. Takes linear time."""
    heirs = _heirs(rows)
    stretch_of = _stretches(rows, heirs)
    lengths = Counter(stretch_of.values())
    collapsed = _collapsed(rows, stretch_of, collapse)
    # The line of each row.
    line_of: dict[int, OutlineLine] = {}
    lines = []
    for row in rows:
        heir = heirs.get(row.key)
        newest = stretch_of[row.key]
        may_hide = heir in line_of and row.key not in collapse.kept
        if heir is not None and may_hide and (newest in collapsed or row.trigger in collapse.triggers):
            line = line_of[heir]
            line.oldest = row
            line.hidden += newest in collapsed
        else:
            line = OutlineLine(row, row, lengths[newest] if newest == row.key else 0)
            lines.append(line)
        line_of[row.key] = line
    for line in lines:
        parent = line_of.get(line.oldest.parent) if line.oldest.parent is not None else None
        line.parent = parent.newest if parent else None
    return Outline(lines, stretch_of)


def _heirs(rows: Iterable[OutlineRow]) -> dict[int, int]:
    """Return the only child of each row that has one, if it continues the row's branch."""
    children: dict[int, list[OutlineRow]] = {}
    for row in rows:
        if row.parent is not None:
            children.setdefault(row.parent, []).append(row)
    branches = {row.key: row.branch for row in rows}
    return {
        parent: only[0].key
        for parent, only in children.items()
        if len(only) == 1 and branches.get(parent) == only[0].branch
    }


def _stretches(rows: Iterable[OutlineRow], heirs: Mapping[int, int]) -> dict[int, int]:
    """Return the newest row of each row's stretch."""
    found: dict[int, int] = {}
    for row in rows:
        # A row whose child comes later in the list, as in a cycle, begins a stretch.
        found[row.key] = found.get(heirs.get(row.key, row.key), row.key)
    return found


def _collapsed(
    rows: Iterable[OutlineRow], stretch_of: Mapping[int, int], collapse: Collapse
) -> Collection[int]:
    """Return the newest row of each collapsed stretch."""
    expanded = {stretch_of[key] for key in collapse.expanded if key in stretch_of}
    if collapse.everything:
        return set(stretch_of.values()) - expanded
    named = {stretch_of[key] for key in collapse.stretches if key in stretch_of}
    branches = frozenset(collapse.branches)
    of_branches = {stretch_of[row.key] for row in rows if row.branch in branches} if branches else set()
    return (named | of_branches) - expanded


# Positions -> the lanes next to a window of rows, newest on top. A drawing contains no text.

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

"""The ordered forest -> lane and row of each node, as ``git log --graph`` does it. Pure.

    row 5   │ ○      lane 1: a fork, open from its parent's row up to its own tip
    row 4   ● │
    row 3   │ ○
    row 2   ●─╯
    row 1   ●        lane 0: what the run began with
    row 0   ●

Row 0 is the oldest. A strand is a node and the nodes that continue its branch; it stays on one lane.
Free lanes are reused. Strands are placed in the order of their starts, so that a new fork does not move
other strands.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from viewer.lineage.tree import LineageNode

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

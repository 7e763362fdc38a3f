"""The ordered forest -> lane and row of each node, as ``git log --graph`` does it. Pure.

    row 5   │ ○      lane 1: a fork, open from its parent's row up to its own tip
    row 4   ● │
    row 3   │ ○
    row 2   ●─╯
    row 1   ●        lane 0: what the run began with
    row 0   ●

Row 0 is the oldest. A strand is a node and whatever continues its branch; it keeps one lane. A lane
is used again once it is free. Strands are placed in the order in which they began, so that a new
fork takes what is left and moves no other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from viewer.lineage.tree import Place

# More lines beside each other than this share the last lane: nobody could tell them apart.
MOST_LANES = 120


@dataclass(frozen=True, slots=True)
class Position:
    """Both count from 0."""

    lane: int
    row: int


def lay_out(places: Sequence[Place]) -> dict[str, Position]:
    """The position of each node of one lineage, by key. The places are given oldest first."""
    rows = {place.key: row for row, place in enumerate(places)}
    strands = _strands(places, rows)
    lanes = _Lanes(len(places))
    own_branch = places[0].branch if places else ""
    positions: dict[str, Position] = {}
    for strand in strands:
        first = places[strand[0]]
        start = strand[0] if first.parent is None else rows[first.parent]
        # The first lane is for the branch that the run began on.
        lane = lanes.take(start, strand[-1], lowest=0 if first.branch == own_branch else 1)
        for row in strand:
            positions[places[row].key] = Position(lane, row)
    return positions


def _strands(places: Sequence[Place], rows: dict[str, int]) -> list[list[int]]:
    """Each line of descent that keeps its lane, as rows from its first to its tip."""
    has_children = {place.parent for place in places if place.parent is not None}
    heir: dict[str, int] = {}
    for row, place in enumerate(places):
        if place.parent is None or places[rows[place.parent]].branch != place.branch:
            continue
        held = heir.get(place.parent)
        # One that goes on is the heir before one that stopped; else the first.
        if held is None or (places[held].key not in has_children and place.key in has_children):
            heir[place.parent] = row
    strand_of: dict[int, list[int]] = {}
    strands: list[list[int]] = []
    for row, place in enumerate(places):
        if place.parent is not None and heir.get(place.parent) == row:
            strand = strand_of[rows[place.parent]]
            strand.append(row)
        else:
            strand = [row]
            strands.append(strand)
        strand_of[row] = strand
    return strands


class _Lanes:
    """Which lanes are taken at which rows: a segment tree of bit masks, one bit a lane.

    ``_whole`` holds lanes taken over all of a node's rows, ``_any`` over at least one of them.
    """

    def __init__(self, rows: int) -> None:
        self._size = 1 << max(rows - 1, 0).bit_length()
        self._whole = [0] * (2 * self._size)
        self._any = [0] * (2 * self._size)

    def take(self, first: int, last: int, lowest: int) -> int:
        """The lowest lane from ``lowest`` on that is free from row ``first`` to ``last``, now taken."""
        cover = self._cover(first, last)
        taken = (1 << lowest) - 1
        for covered in cover:
            node = covered
            taken |= self._any[node]
            while node > 1:
                node >>= 1
                taken |= self._whole[node]
        lane = min((~taken & (taken + 1)).bit_length() - 1, MOST_LANES - 1)
        bit = 1 << lane
        for covered in cover:
            node = covered
            self._whole[node] |= bit
            while node and not self._any[node] & bit:
                self._any[node] |= bit
                node >>= 1
        return lane

    def _cover(self, first: int, last: int) -> list[int]:
        """The few tree nodes whose rows together are exactly first to last."""
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

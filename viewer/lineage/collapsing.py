"""Rows of a run -> lines of its list, with collapsed rows hidden. Pure functions.

    row 5   ● main
    row 4   ●           ->   ● main, 2 collapsed
    row 3   ●                ┊
    row 2   ●─╮              ●─╮

A stretch is a series of checkpoints of one branch between two forks: each but its newest one has exactly
one child, which continues its branch. Only rows of a stretch are hidden, so every fork stays visible.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


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

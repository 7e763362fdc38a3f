"""Folding consecutive pruned checkpoints into one line of the list."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import groupby

from viewer.models import Checkpoint

# Fewer rows are not folded, since nothing would be saved.
FEWEST_FOLDED = 3


def folded(
    rows: Sequence[Checkpoint], passing: Iterable[Checkpoint], at: str, kept: Container[int] = ()
) -> list[list[Checkpoint]]:
    """Return the rows of a window, newest first, grouped. Each group is one line.

    Consecutive pruned rows without a fork between them are folded, except the selected row (``at``), rows
    that show their branch's name, and the keys in ``kept``. ``passing`` are rows above the window.
    All have their parents' positions (``_with_parents`` in window.py).
    """
    children = Counter(row.parent_row for row in (*rows, *passing))  # type: ignore[attr-defined]
    # Count kept rows as forked, so that they are not folded.
    children.update({row.row: 2 for row in rows if row.pk in kept})
    stretches = []
    for stretch in _chains(rows, children, at):
        whole = len(stretch) >= FEWEST_FOLDED
        stretches += [stretch] if whole else [[row] for row in stretch]
    return stretches


def _chains(rows: Sequence[Checkpoint], children: Counter[int | None], at: str) -> Iterator[list[Checkpoint]]:
    """Yield groups of rows that may be folded, and every other row alone."""
    number = 0
    before: Checkpoint | None = None
    numbers = []
    for row in rows:
        if before is None or not (_may_fold(before, children, at) and _follows(before, row, children, at)):
            number += 1
        numbers.append(number)
        before = row
    for _, group in groupby(zip(numbers, rows, strict=True), key=lambda pair: pair[0]):
        yield [row for _, row in group]


def _may_fold(row: Checkpoint, children: Counter[int | None], at: str) -> bool:
    is_plain = not row.is_branch_head and row.checkpoint_id != at
    return is_plain and row.is_pruned and children[row.row] <= 1


def _follows(newer: Checkpoint, row: Checkpoint, children: Counter[int | None], at: str) -> bool:
    is_parent = newer.parent_row == row.row and newer.parent_link == Checkpoint.ParentLink.RECORDED  # type: ignore[attr-defined]
    is_alike = newer.branch == row.branch and newer.state == row.state
    return is_parent and is_alike and _may_fold(row, children, at)

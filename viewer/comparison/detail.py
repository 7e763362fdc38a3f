"""One row of a comparison in full, with the differences marked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from viewer.comparison.diff.alignment import Block, Clock, align
from viewer.comparison.diff.folding import Stretch, folded, merged
from viewer.comparison.diff.structure import json_difference, json_text
from viewer.comparison.diff.words import Piece, Pieces, difference
from viewer.comparison.table import Cell, ComparedRow
from viewer.engines.planning.editable import MISSING

# Characters that a page shows of all sides together, and seconds in which they are compared.
MAX_SHOWN, DIFF_SECONDS = 4_000_000, 2.0
# Equal lines around a change at the terminal.
CONTEXT = 2


@dataclass(frozen=True, slots=True)
class DetailColumn:
    """A side's value. ``is_cut`` if it is longer than what is shown."""

    cell: Cell
    stretches: tuple[Stretch, ...] = ()
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Detail:
    """A row in full. ``unit`` is what folds count: words of a text, or lines of JSON."""

    row: ComparedRow
    unit: str
    columns: tuple[DetailColumn, ...]


def detail_of(row: ComparedRow, *, max_shown: int = MAX_SHOWN, clock: Clock | None = None) -> Detail:
    """The values of a row, compared with the baseline. Equal to it, they are not repeated.

    ``max_shown`` is in characters of all sides together; ``clock`` may be shared with other rows.
    """
    values = [cell.value for cell in row.cells]
    is_text = all(isinstance(value, str) or value is MISSING for value in values)
    unit = "words" if is_text else "lines"
    max_pieces = max_shown // len(values)
    sides = _pieces(values, row.cells, is_text, clock or Clock(DIFF_SECONDS))
    columns = tuple(
        DetailColumn(cell, *_shown(pieces, unit, max_pieces))
        for cell, pieces in zip(row.cells, sides, strict=True)
    )
    return Detail(row, unit, columns)


def _pieces(values: Sequence[Any], cells: Sequence[Cell], is_text: bool, clock: Clock) -> list[Pieces]:
    """The pieces of each value; none for one that is the same as the baseline or missing."""
    base = values[0]
    baseline: list[Pieces] = []
    others: list[Pieces] = []
    for value, cell in zip(values[1:], cells[1:], strict=True):
        if value is MISSING or cell.is_same:
            others.append([])
        elif base is MISSING:
            others.append([Piece(_text(value), True)])
        else:
            before, after = _compared(base, value, is_text, clock)
            baseline.append(before)
            others.append(after)
    if base is MISSING:
        return [[], *others]
    return [merged(baseline) if baseline else [Piece(_text(base), False)], *others]


def _compared(base: Any, value: Any, is_text: bool, clock: Clock) -> tuple[Pieces, Pieces]:
    if is_text:
        return difference(base, value, clock)
    if isinstance(base, str) or isinstance(value, str):
        return difference(_text(base), _text(value), clock)
    return json_difference(base, value, clock)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json_text(value)


def _shown(pieces: Pieces, unit: str, max_pieces: int) -> tuple[tuple[Stretch, ...], bool]:
    """The stretches of a value up to this many characters, and whether that cuts it."""
    kept: Pieces = []
    left = max_pieces
    for piece in pieces:
        if left <= 0:
            break
        kept.append(Piece(piece.text[:left], piece.changed))
        left -= len(piece.text)
    return tuple(folded(kept, unit)), left < 0


def changed_lines(before: Any, after: Any) -> Iterator[str]:
    """The lines of two values that differ, with ``-`` before the old and ``+`` before the new ones.

    Equal lines are left out, except those around a change.
    """
    old, new = ([] if value is MISSING else _text(value).split("\n") for value in (before, after))
    blocks = align(old, new, Clock(DIFF_SECONDS)) or [Block(False, slice(0, len(old)), slice(0, len(new)))]
    for at, (is_equal, olds, news) in enumerate(blocks):
        if is_equal:
            yield from _context(old[olds], is_first=at == 0, is_last=at == len(blocks) - 1)
        else:
            yield from (f"- {line}" for line in old[olds])
            yield from (f"+ {line}" for line in new[news])


def _context(lines: Sequence[str], *, is_first: bool, is_last: bool) -> Iterator[str]:
    """Equal lines, with those in the middle counted."""
    head, tail = (0 if is_first else CONTEXT), (0 if is_last else CONTEXT)
    hidden = len(lines) - head - tail
    if hidden <= 1:
        yield from (f"  {line}" for line in lines)
        return
    yield from (f"  {line}" for line in lines[:head])
    yield f"  … {hidden}"
    yield from (f"  {line}" for line in lines[len(lines) - tail :])

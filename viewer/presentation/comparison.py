"""A comparison: its table of what differs, and one row in full."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy, ngettext
from django.utils.translation import gettext as _

from viewer.engines.contents import Section, part_id
from viewer.engines.editable import MISSING
from viewer.formats import count_text
from viewer.presentation.comparison_sides import SCORE, Side, ValueKey, facts_of
from viewer.presentation.diff import (
    Block,
    Clock,
    Piece,
    Pieces,
    Stretch,
    align,
    difference,
    folded,
    json_difference,
    json_text,
    merged,
    same_json,
)

# Labels of a comparison, and values in a few words.


# The longest value that a cell shows as it is.
MAX_CELL = 60

SECTIONS: Mapping[str, str | Promise] = {
    Section.INPUTS: gettext_lazy("Inputs"),
    Section.SETTINGS: gettext_lazy("Settings"),
    Section.STATE: gettext_lazy("State"),
    Section.OUTPUTS: gettext_lazy("Outputs"),
    Section.MESSAGES: gettext_lazy("Messages"),
    Section.TOOLS: gettext_lazy("Tools"),
}


def summary(section: str, value: Any) -> str:
    """A value in a few words: itself if it is short, or how long it is."""
    if section == Section.MESSAGES and isinstance(value, list):
        return ngettext("%(count)s message", "%(count)s messages", len(value)) % {
            "count": count_text(len(value))
        }
    if section == Section.TOOLS and isinstance(value, list):
        return ngettext("%(count)s call", "%(count)s calls", len(value)) % {"count": count_text(len(value))}
    if isinstance(value, str):
        return _text_summary(value)
    if not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, list) and len(value) > MAX_CELL:
        return ngettext("%(count)s item", "%(count)s items", len(value)) % {"count": count_text(len(value))}
    # Only the beginning is shown: the rest of a large value is not written.
    parts = json.JSONEncoder(ensure_ascii=False, default=str).iterencode(value)
    text = ""
    for part in parts:
        text += part[:MAX_CELL]
        if len(text) > MAX_CELL:
            return f"{text[: MAX_CELL - 1]}…"
    return text


def _text_summary(text: str) -> str:
    if not text.strip():
        return _("empty")
    if len(text) <= MAX_CELL and "\n" not in text:
        return text
    count = len(text.split())
    return ngettext("%(count)s word", "%(count)s words", count) % {"count": count_text(count)}


# The table of a comparison: what differs between its sides, and what is the same.


@dataclass(frozen=True, slots=True)
class Cell:
    """A side's value in a few words. ``value`` is MISSING where the side lacks it."""

    value: Any
    text: str
    is_same: bool

    @property
    def is_missing(self) -> bool:
        return self.value is MISSING


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One value of all sides, the baseline first. ``key`` names it in the address.

    ``score`` is the function that the values of a score are from.
    """

    key: str
    section: str
    name: str
    cells: tuple[Cell, ...]
    score: str = ""

    @property
    def title(self) -> str:
        """Its section and name: an output and the messages of one unit have the same name."""
        label = SECTIONS[Section(self.section)] if self.section else gettext("Overview")
        return f"{label}: {self.name}"

    @property
    def differs(self) -> bool:
        return not all(cell.is_same for cell in self.cells)


@dataclass(frozen=True, slots=True)
class Group:
    """The rows of a section that are shown, and the names of those that are the same."""

    label: str
    rows: tuple[ComparedRow, ...]
    same: tuple[ComparedRow, ...]


def table_of(sides: Sequence[Side], *, shows_same: bool) -> list[Group]:
    """The rows by section. Equal rows are among those shown only if asked for."""
    rows = [*facts_of(sides, row_of), *_rows_of_parts(sides)]
    groups = []
    for section, label in {"": gettext("Overview"), **SECTIONS}.items():
        members = [row for row in rows if row.section == section]
        shown = tuple(row for row in members if row.differs or shows_same)
        same = tuple(row for row in members if not row.differs)
        if members:
            groups.append(Group(str(label), shown, () if shows_same else same))
    return groups


def row_in(groups: Sequence[Group], key: str) -> ComparedRow | None:
    """The row with this key, or else the output that differs first, or any row that does."""
    rows = [row for group in groups for row in (*group.rows, *group.same)]
    differing = [row for row in rows if row.differs and row.section]
    outputs = [row for row in differing if row.section in (Section.OUTPUTS, Section.STATE)]
    named = [row for row in rows if key and row.key == key]
    return next(iter([*named, *outputs, *differing]), None)


def _rows_of_parts(sides: Sequence[Side]) -> list[ComparedRow]:
    """A row for each part of any side, in the order of the sections and of the sides' engine."""
    keys = dict.fromkeys(key for side in sides for key in side.parts)
    order = list(SECTIONS)
    rows = []
    for key in sorted(keys, key=lambda key: order.index(Section(key[0]))):
        parts = [side.parts.get(key) for side in sides]
        first = next(part for part in parts if part)
        name = " · ".join(filter(None, [first.name, gettext(first.trait) if first.trait else ""]))
        rows.append(row_of(key, name, [part.value if part else MISSING for part in parts]))
    return rows


def row_of(key: ValueKey, name: str, values: Sequence[Any]) -> ComparedRow:
    """The row of these values, the baseline first; MISSING where a side lacks it."""
    section, base = key[0], values[0]
    cells: list[Cell] = []
    for value in values:
        is_same = value is base or (value is not MISSING and base is not MISSING and same_json(value, base))
        text = "" if value is MISSING else summary(section, value)
        if not is_same and text and text == cells[0].text:
            # Two texts of as many words, or two values that begin alike.
            text = gettext("%(value)s, but different") % {"value": text}
        cells.append(Cell(value, text, is_same))
    score = key[1].removeprefix(SCORE) if not section and key[1].startswith(SCORE) else ""
    return ComparedRow(part_id(*key), section, name, tuple(cells), score)


# One row of a comparison in full, with the differences marked.


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

"""The table of a comparison: what differs between its sides, and what is the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext

from viewer.comparison.diff.structure import same_json
from viewer.comparison.facts import SCORE, facts_of
from viewer.comparison.labels import SECTIONS, summary
from viewer.comparison.sides import Side, ValueKey
from viewer.engines.comparable import Section, part_id
from viewer.engines.planning.editable import MISSING


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

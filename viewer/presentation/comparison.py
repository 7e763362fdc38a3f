"""Comparisons: a table of what differs, one row in full, exports, and how a value changed along ancestors."""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from itertools import pairwise
from typing import Any

from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from viewer.engines import engine_of
from viewer.engines.contents import Section, part_id
from viewer.engines.plan import MISSING
from viewer.formats import count_text
from viewer.models import Checkpoint
from viewer.presentation.comparison_sides import (
    SCORE,
    Comparison,
    Side,
    ValueKey,
    facts_of,
    nearest_ancestors,
)
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
from viewer.presentation.export import Format, code_block, plain_line
from viewer.presentation.run.branches import edited_checkpoints
from viewer.records.bodies import bodies_of

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
        label = SECTIONS[Section(self.section)] if self.section else _("Overview")
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
    for section, label in {"": _("Overview"), **SECTIONS}.items():
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
        name = " · ".join(filter(None, [first.name, _(first.trait) if first.trait else ""]))
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
            text = _("%(value)s, but different") % {"value": text}
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


# A comparison as one file: the differences, and the full values of each side.


# Maximum characters of full values, and maximum seconds for marking their differences.
MAX_CHARACTERS, EXPORT_SECONDS = 20_000_000, 10.0


@dataclass(frozen=True, slots=True)
class Exported:
    """The rows of a comparison. The values of ``full`` are exported; ``left_out`` is how many are not."""

    compared: Comparison
    groups: list[Group]
    full: list[ComparedRow]
    left_out: int


def exported(compared: Comparison) -> Exported:
    """The exported part of a comparison: rows in order, up to the maximum of characters."""
    with timezone.override(UTC):
        groups = table_of(compared.sides, shows_same=True)
    rows = [row for group in groups for row in group.rows]
    full, left = list[ComparedRow](), MAX_CHARACTERS
    for row in rows:
        left -= sum(len(_exported(cell.value)) for cell in row.cells if not cell.is_missing)
        if left >= 0:
            full.append(row)
    return Exported(compared, groups, full, len(rows) - len(full))


def as_json(compared: Comparison) -> str:
    """The sides and rows of a comparison. Times are ISO 8601."""
    found = exported(compared)
    document = {
        "forkline": 1,
        "exported_at": _now(),
        "common_ancestor": compared.ancestor.checkpoint_id if compared.ancestor else None,
        "sides": [_side(side) for side in compared.sides],
        "rows": [
            {
                "section": row.section or "overview",
                "name": row.name,
                "differs": row.differs,
                "values": [_cell(cell) for cell in row.cells],
            }
            for row in found.full
        ],
        "rows_left_out": found.left_out,
    }
    return json.dumps(document, indent=2, ensure_ascii=False, default=str) + "\n"


def as_markdown(compared: Comparison) -> str:
    """A table of the differences, and the differing values in code blocks, which keep them unchanged."""
    found = exported(compared)
    heads = [_cell_line(side.checkpoint.branch) for side in compared.sides]
    lines = ["# Comparison", ""]
    lines += [f"- {_line_of(side)}" for side in compared.sides]
    lines += ["", f"| | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    for row in (row for group in found.groups for row in group.rows if row.differs):
        texts = ["none" if cell.is_missing else cell.text for cell in row.cells]
        # An output and the messages of one unit have the same name.
        name = f"{row.section or 'overview'}: {row.name}"
        lines.append(f"| {' | '.join(_cell_line(text) for text in [name, *texts])} |")
    for row in found.full:
        if row.differs and row.section:
            lines += ["", f"## {plain_line(row.section)}: {plain_line(row.name)}"]
            lines += _values(compared, row)
    if found.left_out:
        values = "value is" if found.left_out == 1 else "values are"
        lines += ["", f"{found.left_out} {values} too long and left out."]
    return "\n".join([*lines, "", f"Exported from Forkline at {_now()}. Secrets are redacted."]) + "\n"


def as_html(compared: Comparison) -> str:
    """An HTML page without scripts that loads nothing."""
    found, end = exported(compared), time.monotonic() + EXPORT_SECONDS
    details = list[Detail]()
    for row in found.full:
        if row.differs and row.section and time.monotonic() < end:
            details.append(detail_of(row))
    shown = {detail.row.key for detail in details}
    unmarked = [row for row in found.full if row.differs and row.section and row.key not in shown]
    heads = [{"side": side} for side in compared.sides]
    context = {
        "compared": compared,
        "found": found,
        "exported_at": _now(),
        "details": [(one.row, [*zip(heads, one.columns, strict=True)]) for one in details],
        "unmarked": [(row, [*zip(heads, row.cells, strict=True)]) for row in unmarked],
    }
    return render_to_string("export/comparison.html", context)


COMPARISON_FORMATS: Mapping[str, Format[Comparison]] = {
    "html": Format(gettext_lazy("HTML page"), "html", "text/html", as_html),
    "markdown": Format(gettext_lazy("Markdown"), "md", "text/markdown", as_markdown),
    "json": Format(gettext_lazy("JSON"), "json", "application/json", as_json),
}


def comparison_file_name(compared: Comparison, wanted: Format[Comparison]) -> str:
    """A file name that every system accepts."""
    branches = "-".join(side.checkpoint.branch for side in compared.sides[:4])
    name = re.sub(r"[^\w.-]+", "_", f"comparison-{branches}").strip("._")[:80]
    return f"{name}.{wanted.ending}"


def _values(compared: Comparison, row: ComparedRow) -> Iterator[str]:
    """The value of each side. Values equal to the baseline's are not repeated."""
    for side, cell in zip(compared.sides, row.cells, strict=True):
        yield from ("", f"### {plain_line(side.checkpoint.branch)}", "")
        if cell.is_missing:
            yield "none"
        elif cell.is_same and side is not compared.sides[0]:
            yield "same as the baseline"
        else:
            yield code_block(cell.value)


def _side(side: Side) -> dict[str, Any]:
    row = side.checkpoint
    return {
        "run": row.run.key,
        "name": str(row.run),
        "location": row.location.name,
        "checkpoint": row.checkpoint_id,
        "branch": row.branch,
        "created": row.created_at.isoformat() if row.created_at else None,
        "is_readable": side.problem is None,
    }


def _line_of(side: Side) -> str:
    row = side.checkpoint
    texts = [row.branch, row.run, row.checkpoint_id, row.location.name]
    if side.problem is not None:
        texts.append("This checkpoint cannot be read.")
    return " · ".join(plain_line(text) for text in texts)


def _cell(cell: Cell) -> dict[str, Any]:
    if cell.is_missing:
        return {"is_missing": True}
    return {"is_same_as_baseline": cell.is_same, "value": cell.value}


def _cell_line(text: str) -> str:
    return plain_line(text).replace("|", "\\|")


def _exported(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _now() -> str:
    return timezone.now().isoformat(timespec="seconds")


# How many checkpoints one part of a history reads, and of how many bytes, both at their source.
MAX_READ, MAX_BYTES = 60, 64 * 1024 * 1024
# Characters of both sides of one change, and seconds in which the changes of a part are compared.
MAX_SHOWN_CHANGES, CHANGES_SECONDS = 60_000, 2.0


@dataclass(frozen=True, slots=True)
class ValueChange:
    """A checkpoint whose value differs from that of its parent.

    ``edit`` is what the fork edited that begins here. ``is_inexact`` if it may have changed before, in a
    checkpoint that is missing or cannot be read.
    """

    checkpoint: Checkpoint
    detail: Detail
    edit: str = ""
    is_fork: bool = False
    is_inexact: bool = False

    @property
    def is_first(self) -> bool:
        """Whether the value did not exist before."""
        return self.detail.row.cells[0].is_missing

    @property
    def is_removal(self) -> bool:
        """Whether the value does not exist afterwards."""
        return self.detail.row.cells[1].is_missing


@dataclass(frozen=True, slots=True)
class History:
    """The changes among the checkpoints that were read, newest first.

    ``read`` counts them, ``unreadable`` those of which nothing is known. ``older`` is where it continues;
    None at the start of the run.
    """

    name: str = ""
    changes: list[ValueChange] = field(default_factory=list)
    read: int = 0
    unreadable: int = 0
    older: Checkpoint | None = None


def history_of(checkpoint: Checkpoint, part: str, *, count: int = MAX_READ) -> History:
    """How the part with this id changed from this checkpoint to its ``count``-th ancestor.

    The values are those of stored copies, or are read at the source, redacted.
    """
    line = nearest_ancestors(checkpoint, count + 1)
    keys = _bounded(line)
    is_whole = len(keys) == len(line) <= count
    with_copies = Checkpoint.objects.select_related("location__project", "run", "parent", "stored_copy")
    found = with_copies.in_bulk(keys)
    rows = [found[key] for key in keys if key in found]
    names: dict[str, str] = {}
    values = _former_values(rows, part, names)
    known = [row for row in rows if row.pk in values]
    changes = _changes(rows, known, values, names.get(part, ""), is_whole=is_whole)
    # It is compared with its parent where the history continues.
    older = None if is_whole else known[-1] if len(known) > 1 else rows[-1]
    read = rows.index(older) if older else len(rows)
    unreadable = sum(row.pk not in values for row in rows[:read])
    return History(names.get(part, ""), changes, read, unreadable, older)


def _bounded(line: Sequence[Checkpoint]) -> list[int]:
    """The keys of the first checkpoints up to MAX_BYTES, and at least two of them."""
    taken: list[int] = []
    size = 0
    for row in line:
        size += row.size
        if len(taken) > 1 and size > MAX_BYTES:
            break
        taken.append(row.pk)
    return taken


def _former_values(rows: Sequence[Checkpoint], part: str, names: dict[str, str]) -> dict[int, Any]:
    """The part's value in each checkpoint that can be read; MISSING where it has none."""
    location = rows[0].location
    engine = engine_of(location)
    values: dict[int, Any] = {}
    for row, body in bodies_of(location, rows):
        if not body:
            continue
        found = next((one for one in engine.followed_parts(engine.contents_of(body)) if one.id == part), None)
        values[row.pk] = found.value if found else MISSING
        if found:
            names.setdefault(part, found.name)
    return values


def _changes(
    rows: Sequence[Checkpoint],
    known: Sequence[Checkpoint],
    values: Mapping[int, Any],
    name: str,
    *,
    is_whole: bool,
) -> list[ValueChange]:
    """The changes between the checkpoints that are known. ``is_whole`` if the rows reach the start."""
    clock, edits = Clock(CHANGES_SECONDS), edited_checkpoints(rows[0].run)
    positions = {row.pk: at for at, row in enumerate(rows)}
    pairs: list[tuple[Checkpoint, Checkpoint | None]] = [*pairwise(known)]
    if known and is_whole:
        pairs.append((known[-1], None))
    changes = []
    for row, before in pairs:
        old = values[before.pk] if before else MISSING
        compared = row_of(("", name, ""), name, [old, values[row.pk]])
        if not compared.differs:
            continue
        skipped = (positions[before.pk] if before else len(rows)) - positions[row.pk] > 1
        changes.append(
            ValueChange(
                row,
                detail_of(compared, max_shown=MAX_SHOWN_CHANGES, clock=clock),
                edits.get(row.pk, ""),
                is_fork=before is not None and before.branch != row.branch,
                is_inexact=skipped or row.parent_link == Checkpoint.ParentLink.MISSING,
            )
        )
    return changes

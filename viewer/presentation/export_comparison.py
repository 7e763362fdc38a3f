"""A comparison as one file: the differences, and the full values of each side."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from viewer.presentation.comparison import Cell, ComparedRow, Detail, Group, detail_of, table_of
from viewer.presentation.comparison_sides import Comparison, Side
from viewer.presentation.export import Format, code_block, plain_line

# Maximum characters of full values, and maximum seconds for marking their differences.
MAX_CHARACTERS, DIFF_SECONDS = 20_000_000, 10.0


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
        left -= sum(len(_text(cell.value)) for cell in row.cells if not cell.is_missing)
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
        lines += ["", f"{found.left_out} values are too long and left out."]
    return "\n".join([*lines, "", f"Exported from Forkline at {_now()}. Secrets are redacted."]) + "\n"


def as_html(compared: Comparison) -> str:
    """An HTML page without scripts that loads nothing."""
    found, end = exported(compared), time.monotonic() + DIFF_SECONDS
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
    "html": Format(_("HTML page"), "html", "text/html", as_html),
    "markdown": Format(_("Markdown"), "md", "text/markdown", as_markdown),
    "json": Format(_("JSON"), "json", "application/json", as_json),
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


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _now() -> str:
    return timezone.now().isoformat(timespec="seconds")

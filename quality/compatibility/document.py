"""Reads the table of docs/matrix.md and merges new results into it."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from quality.compatibility.environments import ROOT
from quality.compatibility.table import table

DOCUMENT = ROOT / "docs/matrix.md"
HEADING = "## Results"
NOTE = re.compile(r"^(.*) \((\d+)\)$")
REASON = re.compile(r"^(\d+)\. (.*)$")
Key = tuple[str, str]


def read_table(text: str) -> dict[str, dict[Key, str]]:
    """Return the outcome of each row (a group and a name) for each version in the table of the text.

    Raise ValueError if there is no table.
    """
    columns: dict[str, dict[Key, str]] = {}
    lines = text.splitlines()
    cells = [_cells(line) for line in lines if line.startswith("| ")]
    if not cells:
        raise ValueError("no table of versions")
    last = max(position for position, line in enumerate(lines) if line.startswith("| "))
    reasons = {found[1]: found[2] for line in lines[last:] if (found := REASON.match(line))}
    columns = {version: {} for version in cells[0][2:]}
    group = ""
    for row_group, name, *outcomes in cells[1:]:
        group = row_group or group
        for version, outcome in zip(columns, outcomes, strict=True):
            columns[version][group, name] = _with_reason(outcome, reasons)
    return columns


def _cells(line: str) -> list[str]:
    # A "|" in a cell is escaped.
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def _with_reason(cell: str, reasons: Mapping[str, str]) -> str:
    found = NOTE.match(cell)
    return f"{found[1]}: {reasons[found[2]]}".replace("\\|", "|") if found else cell


def recorded(document: Path = DOCUMENT) -> dict[str, dict[Key, str]]:
    """Return the outcomes in ``docs/matrix.md``. Raise ValueError if it has no table."""
    return read_table(document.read_text())


def merged(
    text: str, rows: Sequence[Key], versions: Sequence[str], results: Mapping[tuple[str, str, str], str]
) -> str:
    """Return the document with the new results. Other cells keep their outcome.

    ``rows`` are all existing rows in order. Rows that no longer exist are dropped.
    """
    before, _, _ = text.partition(f"{HEADING}\n")
    columns = read_table(text)
    every = sorted({*columns, *versions}, key=as_numbers)
    outcomes = {
        (group, name, version): outcome
        for version, column in columns.items()
        for (group, name), outcome in column.items()
    }
    return f"{before}{HEADING}\n\n{table(rows, every, {**outcomes, **results})}\n"


def as_numbers(version: str) -> list[int]:
    """Return the parts of a version as numbers, for sorting."""
    return [int(part) for part in re.findall(r"\d+", version)]

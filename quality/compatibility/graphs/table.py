"""The table of docs/matrix-langgraph.md: reading it, writing it, and the cells that a test run gives."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from quality.compatibility.environments import ROOT
from quality.compatibility.graphs.environments import numbers_of

DOCUMENT = ROOT / "docs/matrix-langgraph.md"
HEADING = "## Table"
# What a test may note about itself: the name of its row, and what its cell says if it passes.
ROW, CELL = "row", "cell"
PASS, FAIL, NOT_RUN = "pass", "fail", "not run"
Outcomes = dict[str, dict[str, str]]


def outcomes_in(report: Path) -> dict[str, str]:
    """Return the cell of each test in a JUnit report, by what it shows."""
    return dict(_outcome(case) for case in ElementTree.parse(report).iter("testcase"))


def _outcome(case: ElementTree.Element) -> tuple[str, str]:
    noted = {one.attrib["name"]: one.attrib["value"] for one in case.iter("property")}
    failed = any(case.find(kind) is not None for kind in ("failure", "error"))
    return noted.get(ROW) or shown(case.attrib["name"]), FAIL if failed else noted.get(CELL, PASS)


def shown(name: str) -> str:
    """What a test shows: its name in words."""
    words, _bracket, parameters = name.removeprefix("test_").partition("[")
    return words.replace("_", " ") + (f" ({parameters.rstrip(']')})" if parameters else "")


def table(columns: Mapping[str, Mapping[str, str]]) -> str:
    """Return the table, versions in their order."""
    versions = sorted(columns, key=numbers_of)
    rows = sorted({name for column in columns.values() for name in column})
    lines = [_line(["What is shown", *versions]), _line(["---"] * (len(versions) + 1))]
    lines += [_line([name, *(columns[version].get(name, NOT_RUN) for version in versions)]) for name in rows]
    return "\n".join(lines) + "\n"


def read_table(text: str) -> Outcomes:
    """Return the outcomes by version and row; none if the document has no table yet."""
    lines = [
        re.findall(r"[^|]+", line) for line in text.partition(HEADING)[2].splitlines() if line[:1] == "|"
    ]
    cells = [[cell.strip() for cell in line] for line in lines]
    if not cells:
        return {}
    versions = cells[0][1:]
    return {
        version: {row[0]: row[position] for row in cells[2:]} for position, version in enumerate(versions, 1)
    }


def failed_in(columns: Mapping[str, Mapping[str, str]]) -> Iterable[str]:
    """A line for each failure."""
    for version, rows in columns.items():
        yield from (f"{version}  {name}" for name, cell in rows.items() if cell == FAIL)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"

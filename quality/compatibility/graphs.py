"""``make matrix-graphs``: runs the tests of LangGraph's runner on several versions, and writes the table.

    python -m quality.compatibility.graphs

Each row of docs/matrix-langgraph.md is one test of tests/runners/langgraph. VERSIONS chooses other versions,
separated by spaces; columns of others are kept.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from quality.compatibility.environments import HOME, MAX_SECONDS, ROOT

VERSIONS = ("0.2.76", "0.6.11", "1.0.5", "1.2.22")
TESTS = "tests/runners/langgraph"
DOCUMENT = ROOT / "docs/matrix-langgraph.md"
HEADING = "## Table"
Outcomes = dict[str, dict[str, str]]


def main() -> int:
    """Write the table. Return 1 if a test failed, else 0."""
    versions = os.environ.get("VERSIONS", "").split() or VERSIONS
    found = {version: outcomes_of(version) for version in versions}
    text = DOCUMENT.read_text()
    before = read_table(text)
    DOCUMENT.write_text(f"{text.partition(HEADING)[0]}{HEADING}\n\n{table(before | found)}")
    failed = [
        f"{version}  {name}" for version, rows in found.items() for name in rows if rows[name] != "pass"
    ]
    print("\n".join([*failed, f"The results are in {DOCUMENT.relative_to(ROOT)}."]))
    return int(bool(failed))


def python_of(version: str) -> Path:
    """Return the interpreter with this version. Create its environment if it is missing."""
    folder = HOME / f"langgraph-{version}"
    python, stamp = folder / "bin/python", folder / "installed.txt"
    if not stamp.exists():
        print(f"Installing LangGraph {version} into {folder.relative_to(ROOT)}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        uv = str(Path(sys.executable).parent / "uv")
        install = [uv, "pip", "install", "-q", "--compile-bytecode", "-p", str(python)]
        packages = [f"langgraph=={version}", "langgraph-checkpoint-sqlite"]
        subprocess.run([*install, *packages], check=True, timeout=MAX_SECONDS)
        stamp.write_text(version)
    return python


def outcomes_of(version: str) -> dict[str, str]:
    """Return pass or fail for each test, by what it shows."""
    python = python_of(version)
    print(f"Testing LangGraph {version}", file=sys.stderr, flush=True)
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", TESTS, f"--junit-xml={report.name}"]
        environment = {**os.environ, "FORKLINE_GRAPH_PYTHON": str(python)}
        subprocess.run(
            command, cwd=ROOT, env=environment, check=False, stdout=sys.stderr, timeout=MAX_SECONDS
        )
        cases = list(ElementTree.parse(report.name).iter("testcase"))
    return {
        shown(case.attrib["name"]): "pass"
        if case.find("failure") is None and case.find("error") is None
        else "fail"
        for case in cases
    }


def shown(name: str) -> str:
    """What a test shows: its name in words."""
    words, _bracket, parameters = name.removeprefix("test_").partition("[")
    return words.replace("_", " ") + (f" ({parameters.rstrip(']')})" if parameters else "")


def table(columns: Mapping[str, Mapping[str, str]]) -> str:
    """Return the table, versions in their order."""
    versions = sorted(columns, key=lambda version: [int(part) for part in version.split(".")])
    rows = sorted({name for column in columns.values() for name in column})
    lines = [_line(["What is shown", *versions]), _line(["---"] * (len(versions) + 1))]
    lines += [
        _line([name, *(columns[version].get(name, "not run") for version in versions)]) for name in rows
    ]
    return "\n".join(lines) + "\n"


def read_table(text: str) -> Outcomes:
    """Return the outcomes by version and row; none if the document has no table yet."""
    lines = [re.findall(r"[^|]+", line) for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line] for line in lines]
    if not cells:
        return {}
    versions = cells[0][1:]
    return {
        version: {row[0]: row[position] for row in cells[2:]} for position, version in enumerate(versions, 1)
    }


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())

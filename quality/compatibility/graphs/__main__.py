"""``make matrix-langgraph``: runs the rows on several versions of LangGraph, and writes the table.

    python -m quality.compatibility.graphs

A row of docs/matrix-langgraph.md is a test of tests/runners/langgraph or of the folder ``rows``. VERSIONS
chooses other versions, separated by spaces; columns of others are kept. ROWS chooses rows as -k of pytest
does; other rows are kept.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pytest import ExitCode

from quality.compatibility.environments import MAX_SECONDS, ROOT, newest
from quality.compatibility.graphs.environments import VERSIONS, python_of
from quality.compatibility.graphs.table import DOCUMENT, HEADING, failed_in, outcomes_in, read_table, table

TESTS = ("tests/runners/langgraph", "quality/compatibility/graphs/rows")


def main() -> int:
    """Write the table. Return 1 if a row failed, else 0."""
    versions = os.environ.get("VERSIONS", "").split() or [*VERSIONS, newest("langgraph")]
    chosen = os.environ.get("ROWS", "")
    found = {version: outcomes_of(version, chosen) for version in versions}
    text = DOCUMENT.read_text()
    before = read_table(text)
    if chosen:
        found = {version: before.get(version, {}) | rows for version, rows in found.items()}
    columns = before | found if chosen or os.environ.get("VERSIONS") else found
    DOCUMENT.write_text(f"{text.partition(HEADING)[0]}{HEADING}\n\n{table(columns)}")
    failed = list(failed_in(found))
    print("\n".join([*failed, f"The results are in {DOCUMENT.relative_to(ROOT)}."]))
    return int(bool(failed))


def outcomes_of(version: str, chosen: str) -> dict[str, str]:
    """Return the cell of each row, by what it shows. Exit if pytest cannot run the rows."""
    python = python_of(version)
    print(f"Testing LangGraph {version}", file=sys.stderr, flush=True)
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        command = [sys.executable, "-m", "pytest", "-q", "-n", "3", *TESTS, f"--junit-xml={report.name}"]
        command += ["-k", chosen] if chosen else []
        environment = {**os.environ, "FORKLINE_GRAPH_PYTHON": str(python)}
        ended = subprocess.run(
            command, cwd=ROOT, env=environment, check=False, stdout=sys.stderr, timeout=MAX_SECONDS
        )
        if ended.returncode > ExitCode.TESTS_FAILED:
            sys.exit(f"pytest cannot run the rows (exit status {ended.returncode}).")
        return outcomes_in(Path(report.name))


if __name__ == "__main__":
    sys.exit(main())

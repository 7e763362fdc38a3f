"""Runs the selected rows on the selected versions and merges the results into docs/matrix.md."""

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import django

from quality.compatibility import document, environments, releases
from quality.compatibility.execution import AT_ONCE, outcomes_of, rows_named
from quality.compatibility.rows import Row
from quality.compatibility.sandbox import recordings_of

Results = dict[tuple[str, str, str], str]
VARIABLES = "VERSIONS (separated by spaces) and ROWS (parts of names, separated by commas) choose some."


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if no row fails or, with ``--new``, if no row got worse."""
    parser = argparse.ArgumentParser("python -m quality.compatibility", description=__doc__, epilog=VARIABLES)
    parser.add_argument(
        "--new",
        action="store_true",
        help="play the newest release, unless docs/matrix.md has it, and print only what changed",
    )
    chosen = parser.parse_args(arguments)
    # Rows use the plan of the product, which needs Django.
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    rows = rows_named([part.strip() for part in os.environ.get("ROWS", "").split(",") if part.strip()])
    if not rows:
        parser.error(f"ROWS matches no row: {os.environ['ROWS']}")
    return run_newest(rows) if chosen.new else run(rows)


def run(rows: Sequence[Row]) -> int:
    """Merge the results into docs/matrix.md and print failures. Return 1 if a row fails, else 0."""
    versions = os.environ.get("VERSIONS", "").replace(",", " ").split()
    versions = versions or [*environments.VERSIONS, environments.newest()]
    results = results_of(rows, versions)
    every = [(row.group, row.name) for row in rows_named()]
    text = document.DOCUMENT.read_text()
    document.DOCUMENT.write_text(document.merged(text, every, versions, results))
    failures = {key: outcome for key, outcome in results.items() if outcome.startswith("fail")}
    print(f"\n{len(results)} results are in {document.DOCUMENT.relative_to(environments.ROOT)}.")
    for (group, name, version), outcome in failures.items():
        print(f"{version}  {group}: {name}  {outcome}")
    return int(bool(failures))


def run_newest(rows: Sequence[Row]) -> int:
    """Print the rows that changed since the newest recorded version. Return 1 if one got worse."""
    columns = document.recorded()
    version, previous = environments.newest(), releases.newest_of(columns)
    if version in columns:
        print(f"CrewAI {version} is the newest release, and docs/matrix.md already has it.")
        return 0
    results = results_of(rows, [version])
    now = {(group, name): outcome for (group, name, _), outcome in results.items()}
    found = releases.changes(columns[previous], now)
    print(releases.report(found, version, previous))
    return int(any(change.is_worse for change in found))


def results_of(rows: Sequence[Row], versions: Sequence[str]) -> Results:
    """Return the outcome of each row on each version. Raise CalledProcessError if an installation fails."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        pythons = dict(zip(versions, pool.map(environments.python_of, versions), strict=True))
    results: Results = {}
    for version in versions:
        recordings = recordings_of(environments.HOME / version)
        with environments.interpreter(pythons[version]) as python:
            outcomes = outcomes_of([(row, version, python, recordings) for row in rows])
        for row, outcome in zip(rows, outcomes, strict=True):
            results[row.group, row.name, version] = outcome
    return results


if __name__ == "__main__":
    sys.exit(main())

"""Runs the rows that are wanted on the versions that are wanted, and prints the table."""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import django

from matrix import environments
from matrix.playing import AT_ONCE, outcomes_of, rows_named
from matrix.stage import recordings_of
from matrix.table import table


def main() -> int:
    """0 where no row fails. VERSIONS (with spaces) and ROWS (parts of names, with commas) choose some."""
    # Rows plan as the forms do, which know Django.
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    versions = os.environ.get("VERSIONS", "").replace(",", " ").split()
    versions = versions or [*environments.VERSIONS, environments.newest()]
    rows = rows_named([part.strip() for part in os.environ.get("ROWS", "").split(",") if part.strip()])
    with ThreadPoolExecutor(AT_ONCE) as pool:
        pythons = dict(zip(versions, pool.map(environments.python_of, versions), strict=True))
    plays = [(row, version) for version in versions for row in rows]
    outcomes = outcomes_of(
        [
            (row, version, pythons[version], recordings_of(environments.HOME / version))
            for row, version in plays
        ]
    )
    results = {
        (row.group, row.name, version): outcome
        for (row, version), outcome in zip(plays, outcomes, strict=True)
    }
    print(f"\n{time.strftime('%Y-%m-%d')}, CrewAI {', '.join(versions)}\n")
    print(table([(row.group, row.name) for row in rows], versions, results))
    return int(any(outcome.startswith("fail") for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())

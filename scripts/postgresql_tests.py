"""Run the tests that touch rows with the rows in PostgreSQL."""

import os
import subprocess
import sys

from tests.langgraph.postgresql.server import OWNER, PORT, running

# Tests that touch rows, from every subject, and start few programs. All tests of pages, commands and runs
# would take longer than the rest of CI, and use the same models.
TESTS = [
    "tests/annotations",
    "tests/audit",
    "tests/changes",
    "tests/collections",
    "tests/comparison",
    "tests/hosts/test_forged_rows.py",
    "tests/hosts/test_pages.py",
    "tests/importing/test_reconcile.py",
    "tests/jobs/queue/test_queue.py",
    "tests/jobs/queue/test_start_times.py",
    "tests/jobs/queue/test_sweeps.py",
    "tests/launching/test_naming.py",
    "tests/launching/test_one_preview.py",
    "tests/live/test_feeds.py",
    "tests/locks",
    "tests/presentation",
    "tests/prices",
    "tests/projects",
    "tests/retention",
    "tests/search",
    "tests/sharing",
    "tests/timeline",
    "tests/views/runs/test_one_branch.py",
]
OPTIONS = ["-n", "auto", "--maxprocesses", "4", "--dist", "loadfile", "--no-loadscope-reorder"]
# Tests with an engine or a browser, and those about SQLite's file, run with SQLite only.
SELECTED = ["-m", "not sqlite and not engine and not browser"]


def main(arguments: list[str]) -> int:
    """Start a server for these tests, run them, and return pytest's exit status."""
    with running("forkline-rows-") as server:
        address = f"host={server.folder} port={PORT} user={OWNER}"
        command = [sys.executable, "-m", "pytest", *OPTIONS, *SELECTED, *(arguments or TESTS)]
        environment = {**os.environ, "FORKLINE_TEST_SERVER": address}
        return subprocess.run(command, check=False, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

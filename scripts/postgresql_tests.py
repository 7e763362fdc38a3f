"""Run the tests that touch rows with the rows in PostgreSQL."""

import os
import subprocess
import sys

from tests.langgraph.postgresql.server import OWNER, PORT, running

# Tests of jobs, imports and LangGraph are selected until all of them pass.
TESTS = [
    *("tests/annotations", "tests/audit", "tests/bucket", "tests/changes", "tests/cli", "tests/collections"),
    *("tests/comparison", "tests/demo", "tests/engines", "tests/export", "tests/fuzz", "tests/host"),
    *("tests/hosts", "tests/launching", "tests/live", "tests/locks", "tests/messages", "tests/presentation"),
    *("tests/prices", "tests/projects", "tests/pruning", "tests/retention", "tests/runners", "tests/search"),
    *("tests/serving", "tests/set_up", "tests/sharing", "tests/timeline", "tests/views"),
    *("tests/importing/test_reconcile.py", "tests/jobs/queue/test_queue.py"),
    *("tests/jobs/queue/test_start_times.py", "tests/jobs/queue/test_sweeps.py"),
]
OPTIONS = ["-n", "auto", "--maxprocesses", "4", "--dist", "loadfile", "--no-loadscope-reorder"]
# Tests with an engine or a browser, and those about SQLite's file, run with SQLite only.
SELECTED = ["-m", "rows and not sqlite and not engine and not browser"]


def main(arguments: list[str]) -> int:
    """Start a server for these tests, run them, and return pytest's exit status."""
    with running("forkline-rows-") as server:
        address = f"host={server.folder} port={PORT} user={OWNER}"
        command = [sys.executable, "-m", "pytest", *OPTIONS, *SELECTED, *(arguments or TESTS)]
        environment = {**os.environ, "FORKLINE_TEST_SERVER": address}
        return subprocess.run(command, check=False, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

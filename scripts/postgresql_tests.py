"""Run the tests that touch rows with the rows in PostgreSQL."""

import os
import subprocess
import sys

from tests.langgraph.postgresql.server import OWNER, PORT, running

# Few of these tests wait for programs.
PROCESSES = str(min(len(os.sched_getaffinity(0)), 4))
OPTIONS = ["-n", PROCESSES, "--dist", "loadfile", "--no-loadscope-reorder"]
# Tests with an engine or a browser, and those about SQLite's file or processes, run with SQLite only.
SELECTED = ["-m", "rows and not sqlite and not engine and not browser"]


def main(arguments: list[str]) -> int:
    """Start a server for these tests, run them, and return pytest's exit status."""
    with running("forkline-rows-") as server:
        address = f"host={server.folder} port={PORT} user={OWNER}"
        command = [sys.executable, "-m", "pytest", *OPTIONS, *SELECTED, *arguments]
        environment = {**os.environ, "FORKLINE_TEST_SERVER": address}
        return subprocess.run(command, check=False, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

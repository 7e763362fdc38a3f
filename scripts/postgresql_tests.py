"""Run the tests that touch rows with the rows in PostgreSQL."""

import os
import subprocess
import sys

from tests.langgraph.postgresql.server import OWNER, PORT, running

# Some of these tests wait for the server or for programs.
PROCESSES = str(min(3 * len(os.sched_getaffinity(0)) // 2, 6))
OPTIONS = ["-n", PROCESSES, "--dist", "loadfile", "--no-loadscope-reorder"]
# Tests with an engine or a browser, and those about SQLite's file or processes, run with SQLite only.
ALL = "rows and not sqlite and not engine and not browser"
SELECTED = f"{ALL} and not repeated_statements"


def main(arguments: list[str]) -> int:
    """Start a server for these tests, run them, and return pytest's exit status.

    ``--all`` adds tests whose statements other tests execute too. Other arguments are pytest's.
    """
    marks = ALL if "--all" in arguments else SELECTED
    given = [one for one in arguments if one != "--all"]
    with running("forkline-rows-") as server:
        address = f"host={server.folder} port={PORT} user={OWNER}"
        command = [sys.executable, "-m", "pytest", *OPTIONS, "-m", marks, *given]
        environment = {**os.environ, "FORKLINE_TEST_SERVER": address}
        return subprocess.run(command, check=False, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

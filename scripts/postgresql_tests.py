"""Run the tests that touch rows with the rows in PostgreSQL."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.langgraph.postgresql.server import OWNER, PORT, running

# What does not depend on the kind of database, or is about SQLite's file, is tested with SQLite only.
TESTS = [
    f"tests/{name}"
    for name in ("annotations", "postgresql", "records", "search", "lineage", "retention", "comparison")
]


def main(arguments: list[str]) -> int:
    """Start a server for these tests, run them, and return pytest's exit status."""
    with tempfile.TemporaryDirectory(prefix="forkline-rows-") as folder:
        # Its account differs where this runs as root.
        Path(folder).chmod(0o755)
        with running(Path(folder)):
            server = f"host={folder} port={PORT} user={OWNER}"
            command = [sys.executable, "-m", "pytest", *(arguments or TESTS)]
            environment = {**os.environ, "FORKLINE_TEST_SERVER": server}
            return subprocess.run(command, check=False, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

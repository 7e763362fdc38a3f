"""Runs every chaos test, each in its own process. Exits with 1 if one fails."""

import sys

from quality.processes import run_modules

TESTS = ("killed_writers", "killed_jobs", "permissions", "sessions", "disappearing", "full_disks")

if __name__ == "__main__":
    sys.exit(run_modules("quality.chaos", TESTS))

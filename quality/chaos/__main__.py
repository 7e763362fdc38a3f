"""Run every battery, each in a process of its own, and say whether all of them hold."""

import subprocess
import sys

BATTERIES = (
    *("killed_writers", "killed_jobs", "hostile_pages", "broken_files", "corrupt_stores", "lineages"),
    *("permissions", "sessions", "limits", "disappearing"),
)

if __name__ == "__main__":
    codes = [subprocess.call([sys.executable, "-m", f"quality.chaos.{name}"]) for name in BATTERIES]
    sys.exit(any(codes))

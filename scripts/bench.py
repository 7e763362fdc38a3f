"""``make bench``: runs every benchmark and prints its table."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Each benchmark needs its own process, because their environments differ.
MEASUREMENTS = (
    "import_speed",
    "run_page",
    "large_location",
    "search",
    "live_latency",
    "new_checkpoint",
    "many_pages",
    "many_threads",
    "thread_history",
    "prewarmed_start",
    "serving",
    "idle",
)


def main() -> None:
    """Run every benchmark in its own process."""
    for name in MEASUREMENTS:
        print(f"\n{name.replace('_', ' ')}", flush=True)
        subprocess.run([sys.executable, "-m", f"quality.benchmarks.{name}"], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()

"""``make bench``: runs every benchmark and prints its table."""

import sys

from quality.processes import run_modules

# Each benchmark needs its own process, because their environments differ.
MEASUREMENTS = (
    "import_speed",
    "run_page",
    "large_location",
    "listing",
    "search",
    "live_latency",
    "new_checkpoint",
    "many_pages",
    "many_threads",
    "sessions_file",
    "thread_history",
    "prewarmed_start",
    "redaction",
    "serving",
    "idle",
    "several_machines",
    "several_web_servers",
    "fifty_people",
    "many_locations",
    "new_teammate",
)


if __name__ == "__main__":
    sys.exit(run_modules("quality.benchmarks", MEASUREMENTS))

"""Runs a thousand jobs while requesters, workers and runners are killed at random.

Passes if each job started at most once, and exactly once if it succeeded, if every job has ended fifteen
seconds after the last kill, and if no process of a job is left. Each runner leaves a mark when it starts, so
starts are counted by what really ran.
"""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from quality.tables import print_heading, print_row
from quality.temporary_data_folder import ROOT, made_location, temporary_data_folder

JOBS, WORKERS = 1_000, 2
WORKER = [sys.executable, "manage.py", "worker"]
REQUESTER = [sys.executable, "-m", "quality.chaos.job_requests", str(JOBS)]
# Out of ten kills. A worker takes long to start.
TARGETS = ("children",) * 6 + ("workers",) * 2 + ("requesters",) * 2
RECOVERY_SECONDS = 15


@dataclass
class Found:
    """The results of the jobs. ``unstarted`` counts jobs that succeeded without a start."""

    kills: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    started: int = 0
    started_twice: int = 0
    unstarted: int = 0
    recovery: float = 0.0
    left: int = 0

    @property
    def holds(self) -> bool:
        others = self.ends.keys() - {"succeeded", "interrupted"}
        wrong = self.started_twice or self.unstarted or self.left or others
        return bool(self.started) and not wrong and self.recovery <= RECOVERY_SECONDS


def main() -> int:
    """Print a table. Return 1 if a check failed, else 0."""
    os.environ["FAKE_RUNNER"] = "pauses.py"
    with temporary_data_folder("tests.jobs.worker_settings") as folder:
        found = tried(folder)
    ends = ("succeeded", "interrupted", "otherwise")
    print_heading("jobs", "kills", *ends, "started", "twice", "left over", "recovery")
    kills = ", ".join(f"{count} of {target}" for target, count in sorted(found.kills.items()))
    ended = [found.ends["succeeded"], found.ends["interrupted"]]
    counts = [*ended, found.ends.total() - sum(ended), found.started, found.started_twice, found.left]
    print_row(found.ends.total(), kills, *counts, f"{found.recovery:.1f} s")
    return 0 if found.holds else 1


def tried(folder: Path) -> Found:
    """Request and run the jobs, and kill processes at random."""
    from viewer.models import Job

    made_location(folder)
    found = Found()
    processes = {"requesters": [started(REQUESTER)], "workers": [started(WORKER) for _ in range(WORKERS)]}
    try:
        while Job.objects.count() < JOBS:
            time.sleep(random.uniform(0, 0.6))
            kill_one(random.choice(TARGETS), processes, found)
        recovered(found)
    finally:
        for process in [*processes["requesters"], *processes["workers"]]:
            process.kill()
            process.wait()
    count(folder, found)
    return found


def started(command: list[str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(command, cwd=ROOT)


def kill_one(target: str, processes: dict[str, list[Any]], found: Found) -> None:
    """Kill one process of this kind with SIGKILL and start a replacement. Do nothing if there is none."""
    if target == "children":
        # A process may exit at this moment.
        with suppress(psutil.NoSuchProcess, IndexError):
            random.choice(children()).kill()
            found.kills[target] += 1
        return
    number = random.randrange(len(processes[target]))
    process = processes[target][number]
    process.kill()
    process.wait()
    found.kills[target] += 1
    processes[target][number] = started(WORKER if target == "workers" else REQUESTER)


def children() -> list[psutil.Process]:
    """Return every process of a job, found by the marker in its environment."""
    from viewer.host.jobs.environment import MARKER
    from viewer.models import Job

    jobs = set(map(str, Job.objects.values_list("pk", flat=True)))
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARKER) in jobs and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def recovered(found: Found) -> None:
    """Record how long the jobs take to end after the last kill."""
    from viewer.models import Job

    last_kill = time.monotonic()
    while Job.objects.unfinished().exists() and time.monotonic() - last_kill < 4 * RECOVERY_SECONDS:
        time.sleep(0.05)
    found.recovery = time.monotonic() - last_kill


def count(folder: Path, found: Found) -> None:
    """Compare the rows with the recorded starts."""
    from viewer.models import Job

    starts = Counter((folder / "marks").read_text().split())
    found.started, found.started_twice = len(starts), sum(times > 1 for times in starts.values())
    found.ends = Counter(Job.objects.values_list("status", flat=True))
    succeeded = map(str, Job.objects.filter(status="succeeded").values_list("pk", flat=True))
    found.unstarted = sum(job not in starts for job in succeeded)
    # A runner may still be exiting after its last event.
    time.sleep(1)
    found.left = len(children())


if __name__ == "__main__":
    sys.exit(main())

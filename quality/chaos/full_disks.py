"""Fills the disk of the data folder while jobs run, and frees it again.

Passes if each job ends as it should: it succeeded, or it names the disk; if no job starts on the full disk,
and the worker's log has a line for it instead of tracebacks. The disk is a file system in memory, mounted
where no other process sees it.
"""

import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from quality.tables import print_heading, print_row
from quality.temporary_data_folder import ROOT, made_location, temporary_data_folder

FILLINGS, JOBS_EACH = 12, 3
DISK_BYTES = 96 * 1024 * 1024
FULL_SECONDS, RECOVERY_SECONDS = 3.0, 30.0
# Mounts the disk, and runs this module on it: full_disks INSIDE.
MOUNTED = 'mount -t tmpfs -o size="$1" tmpfs "$2" && TMPDIR="$2" exec "$3" -m quality.chaos.full_disks inside'


@dataclass
class Found:
    """The results.

    ``started_full`` counts jobs that started on the full disk, ``unnamed`` those that failed without naming
    it, and ``unfinished`` those that did not end once it had space.
    """

    fillings: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    started_full: int = 0
    started_twice: int = 0
    unnamed: int = 0
    unfinished: int = 0
    lines: int = 0
    tracebacks: int = 0

    @property
    def holds(self) -> bool:
        wrong = self.started_full + self.started_twice + self.unnamed + self.unfinished + self.tracebacks
        return bool(self.ends["succeeded"] and self.lines) and not wrong and self.lines <= self.fillings


def main() -> int:
    """Mount the disk and measure there. Return 1 if a check failed, else 0."""
    with tempfile.TemporaryDirectory(prefix="forkline-quality-") as folder:
        users = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        arguments = [str(DISK_BYTES), folder, sys.executable]
        return subprocess.call(
            ["unshare", "--mount", *users, "sh", "-c", MOUNTED, "sh", *arguments], cwd=ROOT
        )


def inside() -> int:
    """Print a table. Return 1 if a check failed, else 0."""
    os.environ["FAKE_RUNNER"] = "output/reports_slowly.py"
    # The log has to be on another disk.
    with (
        temporary_data_folder("tests.jobs.worker_settings") as folder,
        tempfile.TemporaryFile(dir="/tmp") as log,
    ):
        found = tried(folder, log.fileno())
        log.seek(0)
        lines = log.read().decode().splitlines()
    found.lines = sum("No space is left on the disk" in line for line in lines)
    found.tracebacks = sum(line.startswith("Traceback") for line in lines)
    print_heading(
        *("fillings", "succeeded", "failed", "interrupted", "disk not named", "started on the full disk"),
        *("started twice", "not ended", "lines in the log", "tracebacks"),
    )
    ends = [found.ends[name] for name in ("succeeded", "failed", "interrupted")]
    others = [found.unnamed, found.started_full, found.started_twice, found.unfinished]
    print_row(found.fillings, *ends, *others, found.lines, found.tracebacks)
    return 0 if found.holds else 1


def tried(folder: Path, log: int) -> Found:
    """Fill and free the disk while a worker runs jobs."""
    from viewer.messages.translation import translate
    from viewer.models import Job
    from viewer.records.hosts import enqueue

    location, found, chance = made_location(folder), Found(), random.Random(7)
    marks = folder / "marks"
    command = [sys.executable, "manage.py", "worker", "--jobs", "1"]
    worker = subprocess.Popen(command, cwd=ROOT, stderr=log)
    try:
        for _ in range(FILLINGS):
            for _job in range(JOBS_EACH):
                job = Job.objects.create(
                    kind="fork", location=location, project=location.project, branch="what-if"
                )
                enqueue(job)
            waited(lambda: Job.objects.under_way().exists())
            time.sleep(chance.uniform(0, 2))
            fill(folder / "filler")
            found.fillings += 1
            # A runner that had just been started leaves its mark.
            time.sleep(FULL_SECONDS / 2)
            full = started(marks)
            time.sleep(FULL_SECONDS)
            found.started_full += started(marks) - full
            (folder / "filler").unlink()
            waited(lambda: not Job.objects.unfinished().exists())
    finally:
        worker.terminate()
        worker.wait()
    found.ends = Counter(Job.objects.values_list("status", flat=True))
    found.unfinished = Job.objects.unfinished().count()
    ended = Job.objects.exclude(status="succeeded")
    found.unnamed = sum("disk of" not in translate(job.error) for job in ended if job.has_ended)
    found.started_twice = sum(times > 1 for times in Counter(marks.read_text().split()).values())
    return found


def started(marks: Path) -> int:
    """How many runners have left their mark."""
    return len(marks.read_text().split()) if marks.exists() else 0


def fill(filler: Path) -> None:
    """Write until the disk is full."""
    with open(filler, "wb", buffering=0) as file:
        for size in (1024 * 1024, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


def waited(condition: Callable[[], bool]) -> None:
    """Return when the condition holds, or after a while."""
    began = time.monotonic()
    while not condition() and time.monotonic() - began < RECOVERY_SECONDS:
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(inside() if sys.argv[1:] == ["inside"] else main())

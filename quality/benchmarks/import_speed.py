"""Measures the import of 1,200 checkpoints next to CrewAI's own lister on the same files."""

import itertools
import json
import os
import re
import resource
import subprocess
import uuid
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from quality.benchmarks.timing import timed
from quality.tables import print_heading, print_row
from quality.temporary_data_folder import ROOT, temporary_data_folder

# The interpreter with CrewAI installed.
ENGINE_PYTHON = os.environ.get("FORKLINE_ENGINE_PYTHON") or str(ROOT / "demo/.venv/bin/python")
COUNT = 1_200
ROUNDS = 5
GOAL_FIRST, GOAL_AGAIN, GOAL_MEGABYTES = 5, 50, 300
# Real checkpoints of a run and its fork, and two with keys in every agent: 123 KB on average.
SAMPLES = (
    (
        "tests/recorded_stores/1.15.30/json/main/*_ce9357fa_p*",
        "tests/recorded_stores/1.15.30/json/main/*_8b1c28a0_p*",
        "tests/recorded_stores/1.15.30/json/main/*_0aa12db3_p*",
        "quality/benchmarks/samples/*_877b0992_p*",
        "tests/recorded_stores/1.15.30/json/exp-a/*_b537f2f3_p*",
    ),
    ("tests/recorded_stores/1.14.2/json/what-if/*", "quality/benchmarks/samples/*_ce87885e_p*"),
)
_UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
ID_TIME = "%Y%m%dT%H%M%S"
_ID = re.compile(rb"(2\d{7}T\d{6})_[0-9a-f]{8}")
LISTER = """
import sys, time, json
from crewai_cli.checkpoint_cli import _list_json
for line in sys.stdin:
    began, worked = time.perf_counter(), time.process_time()
    found = _list_json(line.strip())
    print(json.dumps([len(found), time.perf_counter() - began, time.process_time() - worked]), flush=True)
"""


class Round(NamedTuple):
    """Seconds for all files: the lister, a first and a later import, and processor time."""

    listed: float
    listed_work: float
    first: float
    first_work: float
    inputs: float
    again: float


def main() -> None:
    """Measure with a temporary data folder."""
    with temporary_data_folder() as folder:
        write_corpus(folder / "checkpoints")
        measure(folder / "checkpoints")


def write_corpus(folder: Path) -> None:
    """Multiply the samples. Each copy is a run with new ids, one day later than the last."""
    runs = [[next(ROOT.glob(pattern)) for pattern in patterns] for patterns in SAMPLES]
    written = 0
    for day, paths in enumerate(itertools.cycle(runs)):
        renamed: dict[bytes, bytes] = {}
        for path in paths[: COUNT - written]:
            target = folder / path.parent.name / _renamed(path.name.encode(), renamed, day).decode()
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(_renamed(path.read_bytes(), renamed, day))
            written += 1
        if written == COUNT:
            return


def _renamed(content: bytes, renamed: dict[bytes, bytes], days: int) -> bytes:
    """Return the content moved by ``days``, with new ids that are consistent within a copy."""

    def other_uuid(match: re.Match[bytes]) -> bytes:
        return renamed.setdefault(match[0], str(uuid.uuid4()).encode())

    def other_id(match: re.Match[bytes]) -> bytes:
        at = datetime.strptime(match[1].decode(), ID_TIME) + timedelta(days)
        other = f"{at:{ID_TIME}}_{uuid.uuid4().hex[:8]}"
        return renamed.setdefault(match[0], other.encode())

    return _ID.sub(other_id, _UUID.sub(other_uuid, content))


def measure(folder: Path) -> None:
    """Print the table. Needs Django to be set up."""
    from viewer.host.locations.adding import open_location
    from viewer.host.locations.completing import describe_runs
    from viewer.host.locations.importing import import_location, prepare_import
    from viewer.host.reading.pool import end_idle_readers, reader_count
    from viewer.models import Location

    command = [ENGINE_PYTHON, "-c", LISTER]
    rounds: list[Round] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as lister:
        assert lister.stdin and lister.stdout, "Both are pipes."
        # A warm-up round that does not count.
        for _ in range(ROUNDS + 1):
            # As the page for adding a location does.
            end_idle_readers()
            prepare_import()
            lister.stdin.write(f"{folder}\n")
            lister.stdin.flush()
            count, listed, listed_work = json.loads(lister.stdout.readline())
            assert count == COUNT
            Location.objects.all().delete()
            location = open_location(folder)
            first = timed(partial(import_location, location), without=lister.pid)
            assert location.checkpoints.count() == COUNT
            inputs = timed(partial(describe_runs, location))
            again = timed(partial(import_location, location))
            rounds.append(Round(listed, listed_work, first.passed, first.used, inputs.passed, again.passed))
    middle = Round(*(median(values) for values in zip(*rounds[1:], strict=True)))
    report(middle, reader_count() * peak_of_reader(folder))


def peak_of_reader(folder: Path) -> int:
    """Return the peak memory in kilobytes of a reader process that reads half of the files."""
    from viewer.host.locations.sources import address_at
    from viewer.host.reading import pool
    from viewer.host.reading.location_reader import open_reader
    from viewer.stores.protocol import Entry

    pool.end_idle_readers()
    with open_reader(address_at(folder.resolve())) as store:
        entries = [item for item in store.entries() if isinstance(item, Entry)][: COUNT // 2]
        assert len(list(store.read_all(entries, 1))) == COUNT // 2
    status = Path(f"/proc/{pool._idle[0].pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


def report(middle: Round, readers_kilobytes: int) -> None:
    """Print the medians per checkpoint as a Markdown table."""
    # Measured outside: the peak that a child reports includes its parent's memory at its start.
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + readers_kilobytes
    print(f"{COUNT:,} checkpoints, database writes and stored copies included; {os.cpu_count()} cores\n")
    print_heading("", "ours", "CrewAI's lister", "ratio", "goal")
    for name, ours, listed, goal in (
        ("first import", middle.first, middle.listed, GOAL_FIRST),
        ("the same, as work of all cores", middle.first_work, middle.listed_work, ""),
        ("inputs and costs of all runs, afterwards", middle.inputs, middle.listed, ""),
        ("import, nothing has changed", middle.again, middle.listed, GOAL_AGAIN),
    ):
        each = [f"{seconds / COUNT * 1e6:.0f} µs" for seconds in (ours, listed)]
        print_row(name, *each, f"{listed / ours:.1f}", goal)
    print_row("memory", f"{kilobytes / 1024:.0f} MB", "", "", f"under {GOAL_MEGABYTES} MB")


if __name__ == "__main__":
    main()

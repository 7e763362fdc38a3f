"""Measures the terminal's commands on imported locations of 50,000 checkpoints, of different shapes.

python -m quality.benchmarks.listing [CHECKPOINTS]
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from statistics import median

from quality.benchmarks.large_location import corpus
from quality.tables import print_heading, print_row
from quality.temporary_data_folder import ROOT, temporary_data_folder

CHECKPOINTS, REPEATED = 50_000, 3


def main() -> None:
    """Print the table: the time of the first line, and of all."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else CHECKPOINTS
    print_heading(f"{count:,} checkpoints", "command", "first line", "all lines", "lines")
    with temporary_data_folder() as folder:
        for name, write in shapes(count).items():
            location = folder / name.replace(" ", "-")
            last = write(location)
            # The first import is measured by import_speed.
            measured(["import", str(location)])
            for command in commands(location, last):
                found = [measured(command) for _ in range(REPEATED)]
                first, whole = (median(one[at] for one in found) for at in (0, 1))
                shown = " ".join(part for part in command if str(location) not in part)
                print_row(name, shown, f"{first:.2f} s", f"{whole:.2f} s", f"{found[0][2]:,}")


def shapes(count: int) -> dict[str, Callable[[Path], str]]:
    """Functions that write a location of this many checkpoints and return the id of one, by its shape."""
    return {
        "500 runs": lambda folder: written(folder, [count // 500] * 500),
        "one run": lambda folder: written(folder, [count]),
        "a run for each checkpoint": lambda folder: written(folder, [1] * count),
    }


def written(folder: Path, lengths: Sequence[int]) -> str:
    """Write runs of these lengths. Returns the id of the last checkpoint."""
    at: datetime = corpus.START
    for number, length in enumerate(lengths):
        at = corpus.write_run(folder, number, at, length, 0)
    return f"{at:%Y%m%dT%H%M%S}_{len(lengths) - 1:08x}"


def commands(location: Path, checkpoint: str) -> Iterator[list[str]]:
    """The commands that are measured."""
    target = f"{location}#{checkpoint}"
    yield ["list", str(location)]
    yield ["list", "--json", str(location)]
    yield ["info", target]
    yield ["fork", target, "--plan", "--project", str(ROOT / "demo"), "--python", sys.executable]
    yield ["prune", str(location), "--latest", "1000000"]


def measured(command: list[str]) -> tuple[float, float, int]:
    """The seconds until a command's first line and until its end, and the number of its lines."""
    call = [sys.executable, "-c", "from checkpoint_site.command import main; main()", *command]
    began = time.perf_counter()
    with subprocess.Popen(call, cwd=ROOT, env=dict(os.environ), stdout=subprocess.PIPE) as process:
        assert process.stdout
        first = process.stdout.read(1)
        first_at = time.perf_counter() - began
        lines = (first + process.stdout.read()).count(b"\n")
    return first_at, time.perf_counter() - began, lines


if __name__ == "__main__":
    main()

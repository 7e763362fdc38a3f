"""Measures the processor use of an idle instance, and the start time of terminal commands."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import psutil

from quality.served import served
from quality.tables import print_heading, print_row
from quality.temporary_data_folder import ROOT

SETTLE_SECONDS = 5
IDLE_SECONDS = 40
GOAL_PERCENT = 0.3
STARTS = 7
GOAL_SECONDS = 0.6


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="forkline-bench-") as folder:
        with served(Path(folder) / "data"):
            report_idle(percent_of_a_core())
        report_start(seconds_to_list(Path(folder) / "empty"))


def percent_of_a_core() -> dict[str, float]:
    """Return the percentage of one core that each process uses while no page is open."""
    processes = psutil.Process(os.getpid()).children(recursive=True)
    time.sleep(SETTLE_SECONDS)
    before = [used_seconds(one) for one in processes]
    began = time.monotonic()
    time.sleep(IDLE_SECONDS)
    passed = time.monotonic() - began
    used = [used_seconds(one) - earlier for one, earlier in zip(processes, before, strict=True)]
    return {name_of(one): 100 * seconds / passed for one, seconds in zip(processes, used, strict=True)}


def used_seconds(process: psutil.Process) -> float:
    """Return the processor time in seconds, to the nanosecond. psutil only counts hundredths."""
    threads = Path(f"/proc/{process.pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in threads) / 1e9


def name_of(process: psutil.Process) -> str:
    parts = process.cmdline()
    if "checkpoint_site.server" in parts:
        return "web server"
    return "worker" if "worker" in parts else "up"


def seconds_to_list(folder: Path) -> list[float]:
    """Return the seconds that ``checkpoints list`` takes for this folder, which it makes."""
    folder.mkdir()
    command = [sys.executable, "manage.py", "checkpoints", "list", str(folder)]
    taken = []
    for _ in range(STARTS + 1):
        began = time.monotonic()
        subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        taken.append(time.monotonic() - began)
    return taken[1:]


def report_idle(percent: dict[str, float]) -> None:
    print_heading("process", "percent of a core, idle")
    for name, value in percent.items():
        print_row(name, f"{value:.2f}")
    print_row(f"together (goal: under {GOAL_PERCENT})", f"{sum(percent.values()):.2f}")


def report_start(seconds: Sequence[float]) -> None:
    print()
    print_heading("command", "median s", "fastest s", "goal")
    print_row("checkpoints list", f"{median(seconds):.2f}", f"{min(seconds):.2f}", f"{GOAL_SECONDS} s")


if __name__ == "__main__":
    main()

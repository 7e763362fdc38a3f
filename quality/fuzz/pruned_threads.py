"""Prunes random threads of LangGraph, in its interpreter, and reads through the engine what stays.

The threads have DeltaChannels, subgraphs with and without memory, sent tasks, branches, updates and hostile
ids. Passes if every checkpoint that stays has the same tuple and state as before, with its subgraphs, if no
other thread changes, and if nothing is deleted from a thread that has grown since it was listed.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from quality.tables import print_heading, print_row

ROOT = Path(__file__).resolve().parents[2]
GRAPH_PYTHON = ROOT / "demo/support/.venv/bin/python"
PROGRAM = Path(__file__).with_name("pruned_threads_program.py")
STORES, A_TURN = 1_000, 50
KINDS = ("stays", "deleted", "needed", "whole", "grown")


def main() -> int:
    """Print a table. Return 1 if a check failed, else 0."""
    counts, wrong = Counter[str](), list[str]()
    with ThreadPoolExecutor(os.cpu_count()) as programs:
        for some, reasons in programs.map(tried, range(0, STORES, A_TURN)):
            counts += some
            wrong += reasons
    print_heading("pruned threads", "stores", *KINDS, "wrong")
    print_row("random threads", STORES, *(counts[kind] for kind in KINDS), len(wrong))
    print(*wrong[:20], sep="\n")
    return int(bool(wrong))


def tried(first: int, count: int = A_TURN) -> tuple[Counter[str], list[str]]:
    """Prune a series of random stores, starting with this seed. Return what happened, and what was wrong."""
    command = [str(GRAPH_PYTHON), str(PROGRAM), str(first), str(count)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        return Counter(), [f"seeds from {first}: {ended.stderr[-800:]}"]
    found = json.loads(ended.stdout)
    return Counter(found["counts"]), found["wrong"]


if __name__ == "__main__":
    sys.exit(main())

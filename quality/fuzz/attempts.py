"""Runs attempts with different random seeds in several processes."""

import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from quality.tables import print_heading, print_row

# Makes one attempt and counts what happened. Returns what was wrong.
Attempt = Callable[[random.Random, Counter[str]], list[str]]
BATCH = 250


def tried(attempt: Attempt, seeds: Iterable[int]) -> tuple[Counter[str], list[str]]:
    """Make an attempt with each seed. Return what happened, and what was wrong."""
    counts, wrong = Counter[str](), list[str]()
    for seed in seeds:
        wrong += [f"seed {seed}: {reason}" for reason in attempt(random.Random(seed), counts)]
    return counts, wrong


def print_attempts(
    attempt: Attempt, subject: str, row: str, unit: str, count: int, kinds: Sequence[str]
) -> int:
    """Make ``count`` attempts and print a table. Return 1 if a check failed, else 0."""
    counts, wrong = Counter[str](), list[str]()
    batches = [range(first, min(first + BATCH, count)) for first in range(0, count, BATCH)]
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        for some, reasons in processes.map(partial(tried, attempt), batches):
            counts += some
            wrong += reasons
    print_heading(subject, unit, *kinds, "wrong")
    print_row(row, count, *(counts[kind] for kind in kinds), len(wrong))
    print(*wrong[:20], sep="\n")
    return int(bool(wrong))

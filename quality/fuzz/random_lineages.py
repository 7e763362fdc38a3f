"""Builds a hundred thousand generated lineages with every kind of fault.

Passes if each build ends, has each node once and after its parent, does not depend on the order of its
nodes, draws no lines on top of each other, and reports each fault.
"""

import os
import random
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from quality.tables import print_heading, print_row
from tests.lineage.forests import chain, node, random_nodes
from viewer.records.lineage.lanes import lay_out
from viewer.records.lineage.tree import FaultCode, Forest, Node, build_forest

LINEAGES, A_TURN, LONG_CHAINS, LENGTH = 100_000, 500, 20, 50_000


@dataclass
class Found:
    """The results. ``wrong`` maps the seeds of failed lineages to the reasons."""

    lineages: int = 0
    nodes: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    wrong: list[str] = field(default_factory=list)

    def add(self, other: "Found") -> None:
        self.lineages += other.lineages
        self.nodes += other.nodes
        self.faults += other.faults
        self.slowest = max(self.slowest, other.slowest)
        self.wrong += other.wrong


def main() -> int:
    """Print a table. Return 1 if a check failed, else 0."""
    some, long = Found(), Found()
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        for found in processes.map(tried, range(0, LINEAGES, A_TURN)):
            some.add(found)
        for found in processes.map(tried_long, range(LONG_CHAINS)):
            long.add(found)
    kinds = ("self-parents", "circles", "ids twice")
    print_heading("lineages", "tried", "nodes", *kinds, "slowest", "wrong")
    for name, found in (("of up to 60, with faults", some), (f"chains of {LENGTH:,}", long)):
        faults = [found.faults[code] for code in ("self_parent", "cycle", "duplicate_id")]
        slowest = f"{found.slowest * 1000:.0f} ms"
        print_row(name, found.lineages, found.nodes, *faults, slowest, len(found.wrong))
    print(*(some.wrong + long.wrong)[:20], sep="\n")
    return 1 if some.wrong or long.wrong else 0


def tried(first: int) -> Found:
    """Build a series of random lineages, starting with this seed."""
    found = Found()
    for seed in range(first, first + A_TURN):
        try_one(random_nodes(seed), seed, found)
    return found


def tried_long(seed: int) -> Found:
    """Build long chains, half of them with a cycle or a duplicate id."""
    found, nodes = Found(), chain(LENGTH)
    at = random.Random(seed).randrange(LENGTH)
    if seed % 4 == 1:
        nodes[0] = node("c0", f"c{at}")
    elif seed % 4 == 2:
        nodes[at] = node(f"c{max(at - 1, 0)}", None, key="again", second=at)
    elif seed % 4 == 3:
        nodes = [node(one.key, one.parent_id) for one in nodes]
    try_one(nodes, seed, found)
    return found


def try_one(nodes: list[Node], seed: int, found: Found) -> None:
    """Build the lineage twice, in different orders, and record what fails."""
    started = time.perf_counter()
    forest = build_forest(nodes)
    found.slowest = max(found.slowest, time.perf_counter() - started)
    found.lineages += 1
    found.nodes += len(nodes)
    found.faults.update(fault.code.value for lineage in forest for fault in lineage.faults)
    shuffled = random.Random(seed).sample(nodes, len(nodes))
    checks = {
        "a node is missing, or there twice": holds_each_once(forest, nodes),
        "a node precedes its parent": follows_parents(forest),
        "another order gives another forest": build_forest(shuffled) == forest,
        "a fault is not reported": reported_faults(forest) >= faults_of(nodes),
        "lines lie on each other": lines_are_separate(forest),
    }
    found.wrong += [f"{seed}: {words}" for words, is_so in checks.items() if not is_so]


def holds_each_once(forest: Forest, nodes: list[Node]) -> bool:
    keys = [entry.key for lineage in forest for entry in lineage.nodes]
    return sorted(keys) == sorted(entry.key for entry in nodes)


def follows_parents(forest: Forest) -> bool:
    seen: set[str] = set()
    for lineage in forest:
        for entry in lineage.nodes:
            if entry.parent is not None and entry.parent not in seen:
                return False
            seen.add(entry.key)
    return True


def reported_faults(forest: Forest) -> set[tuple[FaultCode, str]]:
    """Return each reported fault with its ids."""
    return {
        (fault.code, one) for lineage in forest for fault in lineage.faults for one in fault.checkpoint_ids
    }


def faults_of(nodes: list[Node]) -> set[tuple[FaultCode, str]]:
    """Return the faults that follow from the ids alone. Cycles only count if no id is duplicated."""
    ids = Counter(one.checkpoint_id for one in nodes)
    faults = {(FaultCode.DUPLICATE_ID, one) for one, count in ids.items() if count > 1}
    itself = {one.checkpoint_id for one in nodes if one.parent_id == one.checkpoint_id}
    faults |= {(FaultCode.SELF_PARENT, one) for one in itself}
    if not any(code == FaultCode.DUPLICATE_ID for code, _ in faults):
        faults |= {(FaultCode.CYCLE, one) for one in in_cycles(nodes) - itself}
    return faults


def in_cycles(nodes: list[Node]) -> set[str]:
    """Return the ids that are their own ancestors."""
    parents = {one.checkpoint_id: one.parent_id for one in nodes}
    found: set[str] = set()
    done: set[str] = set()
    for start in parents:
        walk: dict[str, None] = {}
        step: str | None = start
        while step is not None and step in parents and step not in walk and step not in done:
            walk[step] = None
            step = parents[step]
        if step in walk:
            order = list(walk)
            found.update(order[order.index(step) :])
        done.update(walk)
    return found


def lines_are_separate(forest: Forest) -> bool:
    """Return whether each node has its own row, and no row of a lane holds two lines."""
    for lineage in forest:
        positions = lay_out(lineage.nodes)
        if sorted(position.row for position in positions.values()) != list(range(len(lineage.nodes))):
            return False
        taken: set[tuple[int, int]] = set()
        for entry in lineage.nodes:
            at = positions[entry.key]
            parent = positions[entry.parent] if entry.parent else at
            rows = {(at.lane, row) for row in range(min(parent.row + 1, at.row), at.row + 1)}
            if taken & rows:
                return False
            taken |= rows
    return True


if __name__ == "__main__":
    sys.exit(main())

"""Nodes for tests of the lineage, simple ones and random ones with every fault."""

import random
from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from viewer.records.lineage.tree import Forest, LineageNode, Node, build_forest

START = datetime(2026, 11, 20, 9, 13, tzinfo=UTC)


def node(
    checkpoint_id: str,
    parent_id: str | None = None,
    *,
    branch: str = "main",
    run: str = "run",
    second: int | None = 0,
    events: Collection[str] = (),
    key: str = "",
) -> Node:
    """Return a node whose key is its id by default."""
    at = None if second is None else START + timedelta(seconds=second)
    return Node(key or checkpoint_id, checkpoint_id, parent_id, run, branch, at, tuple(events))


def chain(length: int, branch: str = "main") -> list[Node]:
    return [node(f"c{i}", f"c{i - 1}" if i else None, branch=branch, second=i) for i in range(length)]


def random_nodes(seed: int) -> list[Node]:
    """Return up to 60 nodes with every fault: orphans, self-parents, cycles, duplicate ids, missing times."""
    chance = random.Random(seed)
    count = chance.randint(1, 60)
    ids = [f"c{chance.randint(0, count)}" if chance.random() < 0.1 else f"c{i}" for i in range(count)]
    return [_random_node(chance, ids, index) for index in range(count)]


def _random_node(chance: random.Random, ids: list[str], index: int) -> Node:
    kind = chance.random()
    parent = chance.choice(ids[: index + 1])
    if kind < 0.1:
        parent = chance.choice(ids)
    elif kind < 0.15:
        parent = f"gone{chance.randint(0, 5)}"
    return node(
        ids[index],
        None if kind > 0.85 else parent,
        branch=chance.choice(["main", "fork/a", "fork/b"]),
        run=chance.choice(["one", "two", ""]),
        second=chance.choice([None, 0, index, index // 3]),
        events=[f"e{i}" for i in range(chance.randint(0, index + 1))],
        key=f"k{index}",
    )


def nodes_of(*nodes: Node) -> dict[str, LineageNode]:
    """Return each node by its key."""
    return by_key(build_forest(nodes))


def by_key(forest: Forest) -> dict[str, LineageNode]:
    return {entry.key: entry for lineage in forest for entry in lineage.nodes}

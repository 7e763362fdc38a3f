"""Generates runs of any length as rows, for benchmarks and for tests with long runs."""

import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from viewer.models import Checkpoint, Location, Run, StoredCopy
from viewer.records.lineage.lanes import Position, lay_out
from viewer.records.lineage.tree import LineageNode, Node, build_forest
from viewer.stores.protocol import compressed

START = datetime(2026, 11, 20, 9, 13, tzinfo=UTC)
TRIGGERS = ("task_started", "task_completed", "task_completed", "task_failed")
BODY = (
    b'{"entities": [{"entity_type": "crew", "name": "made", "tasks": [], "checkpoint_inputs": {"a": "tea"}'
    b'}], "event_record": {"nodes": {"1": {"event": {"type": "crew_kickoff_started"}}}}}'
)


def generated_run(length: int) -> Run:
    """Return a stored run with ``count`` checkpoints. About every fiftieth starts a fork."""
    return stored_run(f"generated {length}", _nodes(length))


def branched_run(branches: Sequence[str], length: int = 6) -> Run:
    """Return a stored run with parallel branches, each with ``length`` checkpoints after main's."""
    nodes: list[Node] = []
    for number in range(length * len(branches)):
        step, column = divmod(number, len(branches))
        parent = nodes[number - len(branches)].key if step else nodes[0].key if number else None
        at = START + timedelta(seconds=number)
        name = f"{at:%Y%m%dT%H%M%S}_{number:08x}"
        nodes.append(Node(name, name, parent, "branched", branches[column], at))
    return stored_run(f"{len(branches)} branches", nodes)


def stored_run(name: str, nodes: Sequence[Node]) -> Run:
    """Store the nodes as a run called ``name``. All nodes descend from the first."""
    length = len(nodes)
    location = Location.objects.create(
        path=f"/generated/{name.removeprefix('generated ')}", store_kind=Location.StoreKind.JSON
    )
    (lineage,) = build_forest(nodes)
    positions = lay_out(lineage.nodes)
    run = Run.objects.create(
        location=location,
        key=name,
        entity="crew",
        name=name,
        first_at=START,
        last_at=START + timedelta(seconds=length),
        checkpoint_count=length,
        branch_count=len({node.branch for node in lineage.nodes}),
        lane_count=1 + max(position.lane for position in positions.values()),
    )
    rows = _rows(run, lineage.nodes, positions)
    Checkpoint.objects.bulk_create(rows, batch_size=500)
    bodies = [StoredCopy(checkpoint=row, data=compressed(BODY)) for row in rows]
    StoredCopy.objects.bulk_create(bodies, batch_size=500)
    return run


def _rows(run: Run, nodes: Sequence[LineageNode], positions: Mapping[str, Position]) -> list[Checkpoint]:
    first = (Checkpoint.objects.order_by("-pk").values_list("pk", flat=True).first() or 0) + 1
    keys = {node.key: first + row for row, node in enumerate(nodes)}
    return [
        Checkpoint(
            pk=keys[node.key],
            location=run.location,
            run=run,
            source_key=f"{node.branch}/{node.key}.json",
            fingerprint="generated",
            checkpoint_id=node.key,
            branch=node.branch,
            recorded_branch=node.branch,
            trigger=TRIGGERS[row % 3 if row % 97 else 3],
            subject="Draft the article",
            created_at=START + timedelta(seconds=row),
            entity="crew",
            units_done=row % 5,
            units_total=4,
            tokens=row * 10,
            size=130_000,
            parent_id=keys.get(node.parent or ""),
            parent_link=node.parent_link,
            lane=positions[node.key].lane,
            row=row,
            is_branch_head=node.is_branch_head,
        )
        for row, node in enumerate(nodes)
    ]


def _nodes(length: int) -> list[Node]:
    chance = random.Random(length)
    tips: dict[str, str | None] = {"main": None}
    nodes: list[Node] = []
    for number in range(length):
        at = START + timedelta(seconds=number)
        if number > 50 and chance.random() < 0.02:
            tips[f"fork/{number}"] = nodes[chance.randrange(max(0, number - 300), number)].key
        branch = chance.choice(list(tips)[-4:])
        name = f"{at:%Y%m%dT%H%M%S}_{number:08x}"
        nodes.append(Node(name, name, tips[branch], "generated", branch, at))
        tips[branch] = name
    return nodes

"""Stores the checkpoints of a long run that a page shows first, at the positions that they will keep."""

from dataclasses import replace
from typing import Any

from django.db import transaction

from viewer.importing.reconciling.rows import LineageColumns, NewRow, insert
from viewer.importing.reconciling.runs import status_after
from viewer.lineage.lanes import lay_out
from viewer.lineage.tree import Lineage, Node, build_forest
from viewer.models import Run
from viewer.stores.packing import Packed
from viewer.stores.protocol import RunIndex


def store_newest(run: Run, index: RunIndex) -> int:
    """Store the snapshots of an index with an outline. Return their number.

    The run, which has no stored checkpoints yet, is partly listed afterwards. The rows have no fingerprint,
    so that the complete listing of the run replaces them.
    """
    # Ids are ordered by time.
    nodes = [
        Node(own_id, own_id, parent or None, run.key, branch, None)
        for own_id, parent, branch in index.outline
    ]
    (lineage,) = build_forest(nodes).lineages
    rows, lanes = _rows(run, index, lineage)
    with transaction.atomic():
        insert(run.location, rows)
        Run.objects.filter(pk=run.pk).update(
            lane_count=lanes,
            checkpoint_count=len(nodes),
            branch_count=len({node.branch for node in nodes}),
            is_partly_listed=True,
            **_shown(index),
        )
    return len(rows)


def _rows(run: Run, index: RunIndex, lineage: Lineage) -> tuple[list[NewRow], int]:
    """The rows of the snapshots at their positions in the lineage, and its number of lanes."""
    snapshots = {one.checkpoint_id: one for one in index.snapshots}
    positions = lay_out(lineage.nodes)
    rows = []
    for node in lineage.nodes:
        if (one := snapshots.get(node.key)) is None:
            continue
        parent, at = snapshots.get(node.parent or ""), positions[node.key]
        columns = LineageColumns(
            run.pk, None, node.parent_link.value, at.lane, at.row, node.is_branch_head, node.branch
        )
        packed = Packed(replace(one, fingerprint=""), b"", b"", [])
        rows.append(NewRow(packed, columns, parent.key if parent else None))
    return rows, 1 + max(position.lane for position in positions.values())


def _shown(index: RunIndex) -> dict[str, Any]:
    """The columns of the run that its newest checkpoints determine."""
    listed, head = index.runs[0], index.snapshots[-1]
    status = listed.status or status_after(head)
    return {
        "entity": head.entity,
        "first_at": listed.first_at,
        "last_at": listed.last_at,
        "head": listed.head,
        **({"status": status} if status else {}),
    }

"""Stores checkpoints that continue the newest one of a run, which leave its other rows as they are.

A lineage orders its rows by time, and a strand ends at its newest row. So what continues the last row gets
the next rows on the same lane, and no other strand moves.
"""

from collections.abc import Sequence
from datetime import datetime

from django.db.models import Max

from viewer.importing.reconciling import rows
from viewer.importing.reconciling.rows import LineageColumns, NewRow
from viewer.importing.reconciling.runs import status_after
from viewer.lineage.tree import ParentLink
from viewer.models import Checkpoint, Run
from viewer.stores.packing import Packed


def stored_as_continued(run: Run, changed: Sequence[Packed], new: Sequence[Packed]) -> bool:
    """Store changed checkpoints of a run, and new ones that continue its newest row, oldest first.

    Returns False, having stored nothing, unless the new ones do. Requires a transaction.
    """
    newest = run.checkpoints.order_by("-row").first()
    if newest is None or not _continue(run, newest, new):
        return False
    keys = [one.key for one in changed]
    pks = dict(run.checkpoints.filter(source_key__in=keys).order_by().values_list("source_key", "pk"))
    rows.overwrite([(pks[one.key], one) for one in changed])
    if new:
        Checkpoint.objects.filter(pk=newest.pk).update(is_branch_head=False)
        rows.insert(run.location, _rows(newest, new))
    _update_run(run, [*changed, *new], len(new))
    return True


def _continue(run: Run, newest: Checkpoint, new: Sequence[Packed]) -> bool:
    """Whether each of these continues the one before, the first of them the newest row."""
    before, ids = newest.checkpoint_id, [one.snapshot.checkpoint_id for one in new]
    # The listing of runs may have updated the time of the run already.
    at: datetime | None = run.checkpoints.order_by().aggregate(at=Max("created_at"))["at"]
    for one in new:
        snapshot = one.snapshot
        is_later = at is not None and snapshot.created_at is not None and snapshot.created_at > at
        is_counted = bool(snapshot.units_done or snapshot.units_total or snapshot.event_ids)
        if snapshot.parent_id != before or snapshot.branch != newest.branch or not is_later or is_counted:
            return False
        before, at = snapshot.checkpoint_id, snapshot.created_at
    same = run.checkpoints.order_by()
    is_alone = (
        newest.parent_id is None or same.filter(parent=newest.parent_id, branch=newest.branch).count() == 1
    )
    return (
        is_alone
        and len(set(ids)) == len(ids)
        and same.filter(checkpoint_id=newest.checkpoint_id).count() == 1
        and not same.filter(parent_checkpoint_id__in=[newest.checkpoint_id, *ids]).exists()
        and not same.filter(checkpoint_id__in=ids).exists()
    )


def _rows(newest: Checkpoint, new: Sequence[Packed]) -> list[NewRow]:
    found, before = [], newest.source_key
    for number, one in enumerate(new, 1):
        columns = LineageColumns(
            run_id=newest.run_id,
            parent_id=None,
            parent_link=ParentLink.RECORDED.value,
            lane=newest.lane,
            row=newest.row + number,
            is_branch_head=number == len(new),
            branch=newest.branch,
        )
        found.append(NewRow(one, columns, before))
        before = one.key
    return found


def _update_run(run: Run, stored: Sequence[Packed], added: int) -> None:
    """Update the columns of the run that its newest checkpoint determines."""
    newest = run.checkpoints.exclude(source_key__startswith=Checkpoint.SCRATCH).order_by("-row").first()
    named = next((one.snapshot.name for one in reversed(stored) if one.snapshot.name), run.name)
    Run.objects.filter(pk=run.pk).update(
        name=named[:300],
        last_at=run.checkpoints.order_by().aggregate(at=Max("created_at"))["at"],
        checkpoint_count=run.checkpoint_count + added,
        **({"status": status_after(newest)} if newest else {}),
    )

"""Stores what was appended to a run, and leaves its other rows as they are."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from django.db.models import Max

from viewer.models import Checkpoint, Location, Run
from viewer.records import checkpoint_rows
from viewer.records.checkpoint_rows import LineageColumns, NewRow
from viewer.records.lineage.tree import ParentLink
from viewer.records.reconciling import reconcile
from viewer.records.run_rows import status_after
from viewer.stores.packing import Packed
from viewer.stores.protocol import Snapshot

# Stores checkpoints that continue the newest one of a run, which leave its other rows as they are.
#
# A lineage orders its rows by time, and a strand ends at its newest row. So what continues the last row gets
# the next rows on the same lane, and no other strand moves.


def stored_as_continued(run: Run, changed: Sequence[Packed], new: Sequence[Packed]) -> bool:
    """Store changed checkpoints of a run, and new ones that continue its newest row, oldest first.

    Returns False, having stored nothing, unless the new ones do. Requires a transaction.
    """
    newest = run.checkpoints.order_by("-row").first()
    if newest is None or not _continue(run, newest, new):
        return False
    keys = [one.key for one in changed]
    pks = dict(run.checkpoints.filter(source_key__in=keys).order_by().values_list("source_key", "pk"))
    checkpoint_rows.overwrite([(pks[one.key], one) for one in changed])
    if new:
        Checkpoint.objects.filter(pk=newest.pk).update(is_branch_head=False)
        checkpoint_rows.insert(run.location, _rows(newest, new))
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


# Stores what was appended to a run of an indexed store, without comparing its other rows.


def usable_state(top: Run, runs: Sequence[int]) -> str:
    """The state of a run's last listing; empty if its next listing has to be complete.

    ``runs`` are the run and those that it called.
    """
    listed = Run.objects.filter(pk=top.pk, is_partly_listed=False).exclude(indexed_fingerprint="")
    state = listed.values_list("listed_state", flat=True).first()
    # A row without a fingerprint is to be read again.
    again = Checkpoint.objects.filter(run__in=runs, fingerprint="").exclude(state=Checkpoint.State.NO_COPY)
    return "" if not state or again.exists() else state


def reconcile_appended(location: Location, snapshots: Sequence[Snapshot]) -> tuple[int, int]:
    """Store those of the snapshots that are new or have changed. Requires a transaction.

    Returns the numbers of new and of changed checkpoints.
    """
    rows = location.checkpoints.filter(source_key__in=[one.key for one in snapshots]).order_by()
    found = rows.values_list("source_key", "fingerprint", "branch")
    stored = {key: (fingerprint, branch) for key, fingerprint, branch in found}
    due: dict[str, list[Packed]] = defaultdict(list)
    for one in _with_stored_branches(snapshots, {key: branch for key, (_mark, branch) in stored.items()}):
        if one.key not in stored or stored[one.key][0] != one.fingerprint:
            due[one.run_key].append(Packed(one, b"", b"", []))
    runs = {run.key: run for run in location.runs.select_related("location").filter(key__in=due)}
    for key, packed in due.items():
        _reconcile_run(location, runs.get(key), packed, stored.keys())
    all_due = [one for packed in due.values() for one in packed]
    added = sum(one.key not in stored for one in all_due)
    return added, len(all_due) - added


def _with_stored_branches(snapshots: Sequence[Snapshot], stored: Mapping[str, str]) -> Iterator[Snapshot]:
    """The snapshots, oldest first, each on the branch of its parent or on the one that it is stored with."""
    branches: dict[tuple[str, str], str] = {}
    for one in sorted(snapshots, key=lambda one: one.checkpoint_id):
        branch = branches.get((one.run_key, one.parent_id or "")) or stored.get(one.key) or one.branch
        branches[one.run_key, one.checkpoint_id] = branch
        yield replace(one, branch=branch)


def _reconcile_run(
    location: Location, run: Run | None, packed: Sequence[Packed], stored: Collection[str]
) -> None:
    """Store the due checkpoints of one run, oldest first."""
    changed = [one for one in packed if one.key in stored]
    new = [one for one in packed if one.key not in stored]
    ids = {one.snapshot.checkpoint_id for one in packed}
    # A checkpoint that was published from a scratch store may be on another branch now.
    is_published = any(one.snapshot.parent_id in ids for one in changed)
    if run is None or is_published or not stored_as_continued(run, changed, new):
        reconcile(location, packed, runs_of_read=[run.pk] if run else [])

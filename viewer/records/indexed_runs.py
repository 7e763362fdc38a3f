"""Stores what an indexed store lists of a run: all of it, what is new since a cursor, or its newest rows."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Case, Max, Q, When

from viewer.models import Checkpoint, Location, Run, is_scratch_key
from viewer.models.rows import in_slices, usage_values
from viewer.records import run_rows
from viewer.records.lineage.lanes import lay_out
from viewer.records.lineage.tree import Lineage, Node, ParentLink, build_forest
from viewer.records.reconciling import reconcile
from viewer.records.run_rows import LineageColumns, NewRow, insert, known_rows, mark_states, status_after
from viewer.redaction import MARKER
from viewer.stores.protocol import IndexedRun, ModelCall, Packed, RunIndex, Snapshot, usage_by_model


class Stored(NamedTuple):
    """How many checkpoints a listing has added, changed and pruned."""

    added: int
    changed: int = 0
    pruned: int = 0


def called_runs(runs: Sequence[int]) -> list[int]:
    """Return the primary keys of the runs that these called, directly or not."""
    found, level = list[int](), runs
    while level := list(Run.objects.filter(parent__in=level).order_by().values_list("pk", flat=True)):
        found += level
    return found


def usable_cursor(top: Run, runs: Sequence[int]) -> str:
    """The cursor of a run's last listing; empty if its next listing has to be complete.

    ``runs`` are the run and those that it called.
    """
    listed = Run.objects.filter(pk=top.pk, is_partly_listed=False).exclude(indexed_fingerprint="")
    cursor = listed.values_list("listed_state", flat=True).first()
    # A row without a fingerprint is to be read again.
    again = Checkpoint.objects.filter(run__in=runs, fingerprint="").exclude(state=Checkpoint.State.NO_COPY)
    return "" if not cursor or again.exists() else cursor


def store_index(top: Run, runs: Sequence[int], index: RunIndex, mark: str) -> Stored:
    """Store what a store with this mark lists of a run and of those that it called, which are ``runs``."""
    location = top.location
    if index.outline:
        return Stored(_store_newest(top, index))
    _adopt(runs, index.snapshots)
    with transaction.atomic():
        stored = _store_checkpoints(location, runs, index)
        store_runs(location, index.runs, mark)
        listed = {"indexed_fingerprint": mark, "listed_state": index.cursor, "is_partly_listed": False}
        Run.objects.filter(pk=top.pk).update(**listed)
    return stored


def _store_checkpoints(location: Location, runs: Sequence[int], index: RunIndex) -> Stored:
    """Store the snapshots that are new or have changed; of a complete listing, also which rows are gone."""
    listed = {one.key for one in index.snapshots}
    if index.is_appended:
        known, named = known_rows(location, listed), _with_branches_of_parents(location, index.snapshots)
    else:
        known, named = known_rows(location, runs=runs), _with_branches_of_rows(location, index.snapshots)
    due = [
        Packed(one, b"", b"", [])
        for one in named
        if one.key not in known or known[one.key].fingerprint != one.fingerprint
    ]
    pruned = 0
    if index.is_appended:
        _append(location, due, known.keys())
    else:
        if due:
            reconcile(location, due, runs_of_read=runs)
        missing = [
            key
            for key, row in known.items()
            # Checkpoints in scratch stores are in no location.
            if key not in listed and not is_scratch_key(key) and row.state != Checkpoint.State.NO_COPY
        ]
        pruned = mark_states(location, missing, Checkpoint.State.PRUNED)
        restored = [
            key for key, row in known.items() if key in listed and row.state == Checkpoint.State.PRUNED
        ]
        mark_states(location, restored, Checkpoint.State.PRESENT)
    added = sum(one.key not in known for one in due)
    return Stored(added, len(due) - added, pruned)


def _adopt(runs: Sequence[int], snapshots: Sequence[Snapshot]) -> None:
    """Give rows whose checkpoints are listed in these runs the keys with which they are listed.

    Their stored copies and their links to jobs remain.
    """
    is_other = Checkpoint.IS_SCRATCH | Q(source_key__contains=MARKER)
    others = Checkpoint.objects.filter(is_other, run__in=runs).order_by()
    found = others.values_list("pk", "source_key", "run_key", "checkpoint_id")
    rows = {(run_key, own_id): (pk, key) for pk, key, run_key, own_id in found}
    if not rows:
        return
    for one in snapshots:
        pk, key = rows.get((one.run_key, one.checkpoint_id), (0, one.key))
        if key != one.key:
            Checkpoint.objects.filter(pk=pk).update(source_key=one.key)


def _with_branches_of_rows(location: Location, snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """The snapshots, with the branch names under which their first checkpoints are stored."""
    first: dict[tuple[str, str], str] = {}
    for one in sorted(snapshots, key=lambda one: one.checkpoint_id):
        first.setdefault((one.run_key, one.branch), one.key)
    if len(first) == 1:
        return list(snapshots)
    stored = _stored_branches(location, list(first.values()))
    names = {branch: stored[key] for branch, key in first.items() if stored.get(key)}
    return [replace(one, branch=names.get((one.run_key, one.branch), one.branch)) for one in snapshots]


def _with_branches_of_parents(location: Location, snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """The snapshots, oldest first, each on the branch of its parent or on the one that it is stored with."""
    stored = _stored_branches(location, [one.key for one in snapshots])
    found: list[Snapshot] = []
    branches: dict[tuple[str, str], str] = {}
    for one in sorted(snapshots, key=lambda one: one.checkpoint_id):
        branch = branches.get((one.run_key, one.parent_id or "")) or stored.get(one.key) or one.branch
        branches[one.run_key, one.checkpoint_id] = branch
        found.append(replace(one, branch=branch))
    return found


def _stored_branches(location: Location, keys: Sequence[str]) -> dict[str, str]:
    """The branches of the stored checkpoints among these, by key."""
    stored: dict[str, str] = {}
    for some in in_slices(keys):
        rows = Checkpoint.objects.filter(location=location, source_key__in=some).order_by()
        stored.update(rows.values_list("source_key", "branch"))
    return stored


# A lineage orders its rows by time, so a checkpoint that continues the newest row gets the next row on the
# same lane, and no other row moves.


def _append(location: Location, due: Sequence[Packed], stored: Collection[str]) -> None:
    """Store checkpoints that were appended or have changed, oldest first. ``stored`` are keys of rows."""
    by_run: dict[str, list[Packed]] = defaultdict(list)
    for one in due:
        by_run[one.snapshot.run_key].append(one)
    runs = {run.key: run for run in location.runs.select_related("location").filter(key__in=by_run)}
    for key, packed in by_run.items():
        run, ids = runs.get(key), {one.snapshot.checkpoint_id for one in packed}
        changed = [one for one in packed if one.key in stored]
        new = [one for one in packed if one.key not in stored]
        # A checkpoint that was published from a scratch store may be on another branch now.
        is_published = any(one.snapshot.parent_id in ids for one in changed)
        if run is None or is_published or not _stored_as_continued(run, changed, new):
            reconcile(location, packed, runs_of_read=[run.pk] if run else [])


def _stored_as_continued(run: Run, changed: Sequence[Packed], new: Sequence[Packed]) -> bool:
    """Store changed checkpoints of a run, and new ones that continue its newest row, oldest first.

    Returns False, having stored nothing, unless the new ones do. Requires a transaction.
    """
    newest = run.checkpoints.order_by("-row").first()
    if newest is None or not _continue(run, newest, new):
        return False
    keys = [one.key for one in changed]
    pks = dict(run.checkpoints.filter(source_key__in=keys).order_by().values_list("source_key", "pk"))
    run_rows.overwrite([(pks[one.key], one) for one in changed])
    if new:
        Checkpoint.objects.filter(pk=newest.pk).update(is_branch_head=False)
        insert(run.location, _continued_rows(newest, new))
    _update_run(run, [*changed, *new], len(new))
    return True


def _continue(run: Run, newest: Checkpoint, new: Sequence[Packed]) -> bool:
    """Whether the first of these continues the newest row, and each other one the one before it."""
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


def _continued_rows(newest: Checkpoint, new: Sequence[Packed]) -> list[NewRow]:
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
    newest = run.checkpoints.exclude(Checkpoint.IS_SCRATCH).order_by("-row").first()
    named = next((one.snapshot.name for one in reversed(stored) if one.snapshot.name), run.name)
    Run.objects.filter(pk=run.pk).update(
        name=named[:300],
        last_at=run.checkpoints.order_by().aggregate(at=Max("created_at"))["at"],
        checkpoint_count=run.checkpoint_count + added,
        **({"status": status_after(newest)} if newest else {}),
    )


def _store_newest(run: Run, index: RunIndex) -> int:
    """Store the snapshots of an index with an outline. Return their number.

    The run, which has no stored checkpoints yet, is partly listed afterwards. The rows have no fingerprint,
    so that the complete listing of the run replaces them.
    """
    # Ids are ordered by time.
    nodes = [
        Node(own_id, own_id, parent or None, run.key, branch, None)
        for own_id, parent, branch in index.outline
    ]
    (lineage,) = build_forest(nodes)
    rows, lanes = _newest_rows(run, index, lineage)
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


def _newest_rows(run: Run, index: RunIndex, lineage: Lineage) -> tuple[list[NewRow], int]:
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


def store_runs(location: Location, runs: Sequence[IndexedRun], mark: str) -> None:
    """Store the indexed columns of a run and of the runs that it called, callers first.

    ``mark`` is that of the store, and empty for runs that were called in a scratch store.
    """
    pks = dict(location.runs.filter(key__in=[run.key for run in runs]).order_by().values_list("key", "pk"))
    for run in runs:
        location.runs.filter(key=run.key).update(
            parent=pks.get(run.parent_key),
            called_from=run.called_from[:300],
            namespace=run.namespace[:500],
            head=run.head,
            described_head=run.head,
            is_forked=Case(When(branch_count__gt=1, then=True), default=False),
            indexed_fingerprint=mark,
            seconds=run.seconds,
            # Its checkpoints determine whether it has completed.
            **({"status": run.status} if run.status else {}),
            **({} if run.calls is None else used_columns(run.calls)),
        )


def used_columns(calls: Sequence[ModelCall]) -> dict[str, Any]:
    """The usage columns of these calls, without their price."""
    values = usage_values([list(one) for one in usage_by_model(calls)])
    return {**dict(zip(Run.USAGE_COLUMNS, values, strict=True)), "is_priced": False}

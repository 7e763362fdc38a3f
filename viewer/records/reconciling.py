"""Stores snapshots as rows of checkpoints and runs, with their position in the lineage."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from viewer.models import Checkpoint, Location, StoredCopy
from viewer.models.rows import in_slices
from viewer.records import run_rows
from viewer.records.lineage.lanes import Position, lay_out
from viewer.records.lineage.tree import Lineage, Node, build_forest
from viewer.records.run_rows import LineageColumns, Member, NewRow
from viewer.stores.protocol import Packed, unpacked_events


@dataclass(frozen=True, slots=True)
class LineageUpdate:
    """The new columns of a member, without its parent's primary key: the parent may not be stored yet."""

    member: Member
    parent: Member | None
    columns: LineageColumns


def reconcile(
    location: Location,
    read: Sequence[Packed],
    *,
    connects_runs: bool = True,
    runs_of_read: Collection[int] | None = None,
) -> None:
    """Store snapshots, and update the runs that they belong to or connect. Requires a transaction.

    Without ``connects_runs``, checkpoints of different runs may have the same id, as a published fork has.
    ``runs_of_read`` are the stored runs to which they can belong, if known.
    """
    if runs_of_read is None:
        run_ids = _affected_runs(location, read, connects_runs)
    else:
        stored = Checkpoint.objects.filter(run__in=runs_of_read).order_by()
        run_ids = set(stored.values_list("run_id", flat=True).distinct())
    members = _affected_members(read, run_ids)
    forest = build_forest(_nodes(members.values()))
    laid_out = [(lineage, lay_out(lineage.nodes)) for lineage in forest]
    stored_runs = run_rows.stored_runs(location, laid_out, members)
    updates = [
        update
        for run_id, (lineage, positions) in zip(stored_runs, laid_out, strict=True)
        for update in _lineage_updates(lineage, positions, members, run_id)
    ]
    _insert_new(location, updates)
    _update_stored(updates)
    run_rows.drop_empty(run_ids)


def _insert_new(location: Location, updates: Sequence[LineageUpdate]) -> None:
    """Store the members that have no row yet, and give them their primary keys."""
    new = [
        NewRow(update.member.read, update.columns, update.parent.key if update.parent else None)
        for update in updates
        if update.member.pk is None and update.member.read is not None
    ]
    pks = run_rows.insert(location, new)
    for update in updates:
        if update.member.pk is None:
            update.member.pk = pks[update.member.key]


def _update_stored(updates: Sequence[LineageUpdate]) -> None:
    """Update the rows of the other members that were read again or have another position now."""
    again: list[tuple[int, Packed]] = []
    moved: list[tuple[int, LineageColumns]] = []
    for update in updates:
        member = update.member
        if member.before is None or member.pk is None:
            continue
        update.columns.parent_id = update.parent.pk if update.parent else None
        if member.read is not None:
            again.append((member.pk, member.read))
        if member.before != update.columns:
            moved.append((member.pk, update.columns))
    run_rows.overwrite(again)
    run_rows.move(moved)


def _affected_members(read: Sequence[Packed], run_ids: set[int]) -> dict[str, Member]:
    """The checkpoints whose lineage may change, by key: the snapshots, and the members of these runs."""
    members = {member.key: member for member in _stored_members(run_ids)}
    for result in read:
        known = members.get(result.key)
        members[result.key] = _member(result, known)
    return members


def _affected_runs(location: Location, read: Sequence[Packed], connects_runs: bool) -> set[int]:
    """The stored runs of the snapshots, of their parents and of their children."""
    known = Checkpoint.objects.filter(location=location).order_by()
    # A new location has no runs.
    if not known.exists():
        return set()
    snapshots = [result.snapshot for result in read]
    ids = {snapshot.checkpoint_id for snapshot in snapshots}
    wanted = {
        "source_key": {snapshot.key for snapshot in snapshots},
        "run_key": {snapshot.run_key for snapshot in snapshots if snapshot.run_key},
    }
    if connects_runs:
        parents = {snapshot.parent_id for snapshot in snapshots if snapshot.parent_id}
        wanted |= {"checkpoint_id": ids | parents, "parent_checkpoint_id": ids}
    run_ids: set[int] = set()
    for column, values in wanted.items():
        for some in in_slices(sorted(values)):
            found = known.filter(**{f"{column}__in": some})
            run_ids.update(found.values_list("run_id", flat=True).distinct())
    return run_ids


def _stored_members(run_ids: Iterable[int]) -> Iterator[Member]:
    columns = (
        *("pk", "source_key", "checkpoint_id", "parent_checkpoint_id", "run_key", "recorded_branch"),
        *("created_at", "event_count"),
        *("entity", "name", "units_done", "units_total", "trigger", "ended_as"),
        *("run_id", "parent_id", "parent_link", "lane", "row", "is_branch_head", "branch"),
    )
    for some in in_slices(sorted(run_ids)):
        for row in Checkpoint.objects.filter(run__in=some).order_by().values_list(*columns).iterator(5000):
            member = Member(*row[:14])
            member.parent_id, member.before = member.parent_id or None, LineageColumns(*row[14:])
            yield member


def _member(read: Packed, known: Member | None) -> Member:
    snapshot = read.snapshot
    return Member(
        known.pk if known else None,
        snapshot.key,
        snapshot.checkpoint_id,
        snapshot.parent_id,
        snapshot.run_key,
        snapshot.branch,
        snapshot.created_at,
        read.event_count,
        snapshot.entity,
        snapshot.name,
        snapshot.units_done,
        snapshot.units_total,
        snapshot.trigger,
        known.ended_as if known else "",
        read,
        known.before if known else None,
    )


def _nodes(members: Collection[Member]) -> list[Node]:
    events = _event_ids(members)
    return [
        Node(
            key=member.key,
            checkpoint_id=member.checkpoint_id,
            parent_id=member.parent_id,
            run_key=member.run_key,
            branch=member.branch,
            created_at=member.created_at,
            event_ids=events.get(member.key, ()),
            event_count=member.event_count,
        )
        for member in members
    ]


def _event_ids(members: Collection[Member]) -> dict[str, tuple[bytes, ...]]:
    """The event ids that the lineage needs.

    Those of kickoffs in which several checkpoints have no parent in this location, and of checkpoints that
    may continue a branch a second time, with their parents.
    """
    by_id = {member.checkpoint_id: member for member in members}
    parentless = Counter(
        member.run_key for member in members if member.parent_id not in by_id and member.run_key
    )
    siblings = Counter((member.parent_id, member.branch) for member in members)
    begins = {
        member.key
        for member in members
        if (parent := by_id.get(member.parent_id or "")) and parent.branch != member.branch
    }
    begun = Counter(member.branch for member in members if member.key in begins)
    repeated = [
        member
        for member in members
        if member.parent_id in by_id
        and (
            siblings[member.parent_id, member.branch] > 1
            or (member.key in begins and begun[member.branch] > 1)
        )
    ]
    parents = {member.parent_id for member in repeated}
    needed = {member.key for member in repeated}
    wanted = [
        member
        for member in members
        if parentless[member.run_key] > 1 or member.key in needed or member.checkpoint_id in parents
    ]
    events = {
        member.key: unpacked_events(member.read.event_ids) for member in wanted if member.read is not None
    }
    stored = {member.pk: member.key for member in wanted if member.read is None and member.pk is not None}
    for some in in_slices(list(stored)):
        found = StoredCopy.objects.filter(pk__in=some).values_list("pk", "event_ids")
        events.update((stored[pk], unpacked_events(bytes(packed))) for pk, packed in found)
    return events


def _lineage_updates(
    lineage: Lineage, positions: dict[str, Position], members: dict[str, Member], run_id: int
) -> Iterator[LineageUpdate]:
    """The update of each member of a lineage, parents before children."""
    for node in lineage.nodes:
        position = positions[node.key]
        parent = members[node.parent] if node.parent is not None else None
        columns = LineageColumns(
            run_id,
            None,
            node.parent_link.value,
            position.lane,
            position.row,
            node.is_branch_head,
            node.branch,
        )
        yield LineageUpdate(members[node.key], parent, columns)

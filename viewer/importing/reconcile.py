"""Where what was read hangs: lineage, lanes and runs, for the runs that it touches and no others."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from viewer.importing import rows, runs
from viewer.importing.rows import LineageColumns, in_slices
from viewer.lineage.lanes import Position, lay_out
from viewer.lineage.tree import Lineage, Node, build_forest
from viewer.models import Checkpoint, CheckpointBody, Location
from viewer.stores.packing import Packed, unpacked_events


@dataclass(slots=True)
class Member:
    """A checkpoint of a touched run, stored already or just read."""

    pk: int
    key: str
    checkpoint_id: str
    parent_id: str | None
    run_key: str
    branch: str
    created_at: datetime | None
    event_count: int
    entity: str
    name: str
    tasks_done: int
    tasks_total: int
    read: Packed | None = None
    before: LineageColumns | None = None


@dataclass(slots=True)
class Touched:
    """The members of all runs that an import touches, by key."""

    members: dict[str, Member] = field(default_factory=dict)
    run_ids: set[int] = field(default_factory=set)


def reconcile(location: Location, read: Sequence[Packed]) -> None:
    """Store what was read, and reconcile the runs that it belongs to or connects. Inside a transaction."""
    touched = _touched(location, read)
    forest = build_forest(_nodes(touched))
    laid_out = [(lineage, lay_out(lineage.places)) for lineage in forest.lineages]
    new: list[tuple[int, Packed, LineageColumns]] = []
    again: list[tuple[int, Packed]] = []
    moved: list[tuple[int, LineageColumns]] = []
    stored_runs = runs.stored_runs(location, laid_out, touched.members)
    for run_id, (lineage, positions) in zip(stored_runs, laid_out, strict=True):
        for member, standing in _standings(lineage, positions, touched.members, run_id):
            if member.before is None and member.read is not None:
                new.append((member.pk, member.read, standing))
                continue
            if member.read is not None:
                again.append((member.pk, member.read))
            if member.before != standing:
                moved.append((member.pk, standing))
    rows.insert(location, new)
    rows.overwrite(again)
    rows.move(moved)
    runs.drop_empty(touched.run_ids)


def _touched(location: Location, read: Sequence[Packed]) -> Touched:
    """Everything that may hang otherwise now: the runs of what was read, of its parents and its children."""
    touched = Touched(run_ids=_touched_runs(location, read))
    for member in _stored_members(touched.run_ids):
        touched.members[member.key] = member
    pk = rows.last_key(Checkpoint)
    for result in read:
        known = touched.members.get(result.key)
        if known is None:
            pk += 1
            touched.members[result.key] = _member(pk, result, None)
        else:
            touched.members[result.key] = _member(known.pk, result, known.before)
    return touched


def _touched_runs(location: Location, read: Sequence[Packed]) -> set[int]:
    known = Checkpoint.objects.filter(location=location).order_by()
    # Nothing is looked for in a location that is new.
    if not known.exists():
        return set()
    snapshots = [result.snapshot for result in read]
    ids = {snapshot.checkpoint_id for snapshot in snapshots}
    wanted = {
        "source_key": {snapshot.key for snapshot in snapshots},
        "checkpoint_id": ids | {snapshot.parent_id for snapshot in snapshots if snapshot.parent_id},
        "parent_checkpoint_id": ids,
        "run_key": {snapshot.run_key for snapshot in snapshots if snapshot.run_key},
    }
    run_ids: set[int] = set()
    for column, values in wanted.items():
        for some in in_slices(sorted(values)):
            found = known.filter(**{f"{column}__in": some})
            run_ids.update(found.values_list("run_id", flat=True).distinct())
    return run_ids


def _stored_members(run_ids: Iterable[int]) -> Iterator[Member]:
    columns = (
        *(
            "pk",
            "source_key",
            "checkpoint_id",
            "parent_checkpoint_id",
            "run_key",
            "branch",
            "created_at",
            "event_count",
        ),
        *("entity", "name", "tasks_done", "tasks_total"),
        *("run_id", "parent_id", "parent_link", "lane", "row", "is_branch_head"),
    )
    for some in in_slices(sorted(run_ids)):
        for row in Checkpoint.objects.filter(run__in=some).order_by().values_list(*columns).iterator(5000):
            member = Member(*row[:12])
            member.parent_id, member.before = member.parent_id or None, LineageColumns(*row[12:])
            yield member


def _member(pk: int, read: Packed, before: LineageColumns | None) -> Member:
    told = read.snapshot
    return Member(
        pk,
        told.key,
        told.checkpoint_id,
        told.parent_id,
        told.run_key,
        told.branch,
        told.created_at,
        read.event_count,
        told.entity,
        told.name,
        told.tasks_done,
        told.tasks_total,
        read,
        before,
    )


def _nodes(touched: Touched) -> list[Node]:
    events = _events_for_inference(touched)
    return [
        Node(
            key=member.key,
            checkpoint_id=member.checkpoint_id,
            parent_id=member.parent_id,
            run_key=member.run_key,
            branch=member.branch,
            created_at=member.created_at,
            event_ids=events.get(member.key, ()),
        )
        for member in touched.members.values()
    ]


def _events_for_inference(touched: Touched) -> dict[str, tuple[bytes, ...]]:
    """The event ids of those kickoffs in which more than one checkpoint has no parent here."""
    ids = {member.checkpoint_id for member in touched.members.values()}
    parentless = Counter(
        member.run_key
        for member in touched.members.values()
        if member.parent_id not in ids and member.run_key
    )
    wanted = [member for member in touched.members.values() if parentless[member.run_key] > 1]
    events = {
        member.key: unpacked_events(member.read.event_ids) for member in wanted if member.read is not None
    }
    stored = {member.pk: member.key for member in wanted if member.read is None}
    for some in in_slices(list(stored)):
        found = CheckpointBody.objects.filter(pk__in=some).values_list("pk", "event_ids")
        events.update((stored[pk], unpacked_events(bytes(packed))) for pk, packed in found)
    return events


def _standings(
    lineage: Lineage, positions: dict[str, Position], members: dict[str, Member], run_id: int
) -> Iterator[tuple[Member, LineageColumns]]:
    """Each member of a lineage with where it hangs now, parents before children."""
    for place in lineage.places:
        position = positions[place.key]
        parent_id = members[place.parent].pk if place.parent is not None else None
        yield (
            members[place.key],
            LineageColumns(
                run_id, parent_id, place.edge.value, position.lane, position.row, place.is_branch_head
            ),
        )

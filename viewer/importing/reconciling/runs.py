"""Runs: one for each lineage, with the same URL after every import."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from viewer.engines import all_engines, kinds_that
from viewer.importing.reconciling.members import Member
from viewer.importing.reconciling.rows import in_slices, moment
from viewer.importing.reconciling.usage import NOTHING_USED, recorded_usage
from viewer.lineage.lanes import Position
from viewer.lineage.tree import Lineage, LineageFault
from viewer.models import Checkpoint, Location, Run, run_uid
from viewer.models.many_rows import insert_many, update_many

# The number of checkpoints that are named for a lineage fault. The others are counted.
MAX_IDS_NAMED = 10
# A lineage, and the lane and row of each of its checkpoints.
LaidOut = tuple[Lineage, dict[str, Position]]
# The columns that a run's checkpoints determine, and their values.
_COLUMNS = (
    *("entity", "name", "first_at", "last_at", "checkpoint_count", "branch_count", "lane_count"),
    *("units_known", "all_units_known", "status"),
    *Run.USAGE_COLUMNS,
    *("seconds", "lineage_faults"),
)
_JSON = frozenset({"usage", "lineage_faults"})
Summary = list[Any]
# The usage part of a summary. It begins with the tokens.
_USAGE = slice(_COLUMNS.index("tokens"), _COLUMNS.index("lineage_faults"))


def stored_runs(location: Location, laid_out: Sequence[LaidOut], members: Mapping[str, Member]) -> list[int]:
    """Store or update the run of each lineage. Return the primary keys.

    The run is that of the lineage's oldest checkpoint, or a new one.
    """
    recorded = recorded_usage([lineage for lineage, _ in laid_out], members)
    keys = [run_key(lineage, members) for lineage, _ in laid_out]
    stored = {key: (pk, summary) for key, pk, *summary in _stored(location, keys, _COLUMNS)}
    pks = {key: pk for key, (pk, _) in stored.items()}
    before = {key: summary for key, (_, summary) in stored.items()}
    new: list[str] = []
    changed: list[tuple[str, Summary]] = []
    for key, (lineage, positions), used in zip(keys, laid_out, recorded, strict=True):
        lanes = 1 + max(position.lane for position in positions.values())
        # In an indexed store, the usage is read per run, not from its checkpoints.
        usage = used.values if used else before[key][_USAGE] if key in before else NOTHING_USED
        summary = summarize(lineage, members, lanes, usage)
        if key not in before:
            before[key] = summary
            new.append(key)
        elif before[key] != summary:
            changed.append((key, summary))
    pks |= _insert_new(location, {key: before[key] for key in new})
    update_many(Run, _COLUMNS, [(*_as_stored(summary), pks[key]) for key, summary in changed])
    unpriced = [key for key in new if before[key][_USAGE][1]]
    unpriced += [key for key, summary in changed if summary[_USAGE] != before[key][_USAGE]]
    update_many(Run, ("is_priced",), [(False, pks[key]) for key in unpriced])
    return [pks[key] for key in keys]


def _insert_new(location: Location, summaries: Mapping[str, Summary]) -> dict[str, int]:
    """Store new runs. Returns their primary keys, by key."""
    values = [
        (run_uid(location.uid, key).hex, location.pk, key, *_as_stored(summary))
        for key, summary in summaries.items()
    ]
    insert_many(Run, ("uid", "location_id", "key", *_COLUMNS), values)
    return dict(_stored(location, list(summaries)))


def _stored(
    location: Location, keys: Sequence[str], columns: Sequence[str] = ()
) -> Iterator[tuple[Any, ...]]:
    """The key, the primary key and these columns of the runs with these keys."""
    runs = Run.objects.filter(location=location).order_by()
    # A new location has no runs.
    if keys and runs.exists():
        for some in in_slices(keys):
            yield from runs.filter(key__in=some).values_list("key", "pk", *columns)


def run_key(lineage: Lineage, members: Mapping[str, Member]) -> str:
    """The engine's id of the oldest kickoff; without one, the key of the oldest checkpoint."""
    return (lineage.run_key or f"checkpoint {members[lineage.nodes[0].key].key}")[:200]


def summarize(
    lineage: Lineage, members: Mapping[str, Member], lane_count: int, usage: Sequence[Any]
) -> Summary:
    """The columns of a run that its checkpoints determine, including its ``usage`` columns."""
    mine = [members[node.key] for node in lineage.nodes]
    moments = [member.created_at for member in mine if member.created_at is not None]
    return [
        next((member.entity for member in mine if member.entity != "unknown"), "unknown"),
        next((member.name for member in reversed(mine) if member.name), "")[:300],
        min(moments, default=None),
        max(moments, default=None),
        len(mine),
        len({member.branch for member in mine}),
        lane_count,
        *units_known(mine),
        status_after(_head(mine)),
        *usage,
        [_stored_fault(fault) for fault in lineage.faults],
    ]


def _head(members: Sequence[Member]) -> Member:
    """The newest checkpoint at the source. A fork in a scratch store does not move the head."""
    recorded = [member for member in members if not member.key.startswith(Checkpoint.SCRATCH)]
    return (recorded or members)[-1]


class Head(Protocol):
    """The newest checkpoint of a run: a row, a member or a snapshot."""

    @property
    def entity(self) -> str: ...
    @property
    def trigger(self) -> str: ...
    @property
    def units_done(self) -> int: ...
    @property
    def units_total(self) -> int: ...


def status_after(head: Head) -> str:
    """The status of a run with this newest checkpoint; empty if the checkpoint implies none.

    A run that knows all its units from the start is completed when they are, also if its engine wrote no
    checkpoint at the end.
    """
    engines = all_engines()
    if head.trigger.endswith(tuple(suffix for one in engines for suffix in one.failure_suffixes)):
        return Run.Status.FAILED.value
    if head.trigger.endswith(tuple(suffix for one in engines for suffix in one.waiting_suffixes)):
        return Run.Status.WAITING.value
    closed = {kind.name for kind in kinds_that(lambda kind: not kind.is_open_ended)}
    has_all_units = 0 < head.units_done == head.units_total and head.entity in closed
    is_end = has_all_units or any(one.is_end(head.trigger) for one in engines)
    return Run.Status.COMPLETED.value if is_end else ""


def units_known(members: Sequence[Member]) -> tuple[int, bool]:
    """The most units that a checkpoint of an open-ended run knows, and whether one has finished with them."""
    open_ended = {kind.name for kind in kinds_that(lambda kind: kind.is_open_ended)}
    going_on = [member for member in members if member.entity in open_ended]
    known = max((max(member.units_done, member.units_total) for member in going_on), default=0)
    # Such a checkpoint says that nothing is left to do only if its run has finished.
    finished = (member.units_done for member in going_on if member.units_done == member.units_total)
    return known, 0 < known == max(finished, default=0)


def _as_stored(summary: Summary) -> tuple[Any, ...]:
    values = dict(zip(_COLUMNS, summary, strict=True))
    values |= {name: moment(values[name]) for name in ("first_at", "last_at")}
    values |= {name: json.dumps(values[name]) for name in _JSON}
    return tuple(values.values())


def _stored_fault(fault: LineageFault) -> dict[str, Any]:
    ids = fault.checkpoint_ids
    return {"code": fault.code.value, "ids": list(ids[:MAX_IDS_NAMED]), "count": len(ids)}


def drop_empty(run_ids: Iterable[int]) -> None:
    """Delete the runs among these that were merged into others."""
    for some in in_slices(sorted(run_ids)):
        Run.objects.filter(pk__in=some, checkpoints=None).delete()

"""Runs: one for each lineage, with the same URL after every import."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from viewer.engines import all_engines, kinds_that
from viewer.models import Checkpoint, Location, Run, is_scratch_key, run_uid
from viewer.models.columns import in_slices, insert_many, update_many
from viewer.records.checkpoint_rows import NOTHING_USED, Member, moment, recorded_usage
from viewer.records.lineage.lanes import Position
from viewer.records.lineage.tree import Lineage, LineageFault

# The number of checkpoints that are named for a lineage fault. The others are counted.
MAX_IDS_NAMED = 10
# Statuses of a branch that say nothing about its run.
ABANDONED = frozenset({"cancelled", "interrupted", "unknown"})
# A lineage, and the lane and row of each of its checkpoints.
LaidOut = tuple[Lineage, dict[str, Position]]
# The columns that a run's checkpoints determine, and their values.
_COLUMNS = (
    *("entity", "name", "first_at", "last_at", "checkpoint_count", "branch_count", "lane_count"),
    *("units_known", "all_units_known", "status", "newest_status", "branch_statuses"),
    *Run.USAGE_COLUMNS,
    *("seconds", "lineage_faults"),
)
_JSON = frozenset({"usage", "branch_statuses", "lineage_faults"})
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
    heads = [members[node.key] for node in lineage.nodes if node.is_branch_head]
    newest = _newest(heads)
    moments = [member.created_at for member in mine if member.created_at is not None]
    return [
        next((member.entity for member in mine if member.entity != "unknown"), "unknown"),
        next((member.name for member in reversed(mine) if member.name), "")[:300],
        min(moments, default=None),
        max(moments, default=None),
        len(mine),
        len(heads),
        lane_count,
        *units_known(mine),
        *statuses_of(
            [(head.branch, branch_status(head)) for head in heads],
            mine[0].branch,
            newest.entity,
            branch_status(newest),
        ),
        *usage,
        [_stored_fault(fault) for fault in lineage.faults],
    ]


def _newest(heads: Sequence[Member]) -> Member:
    """The newest of these at the source. A fork in a scratch store does not move the head of its run."""
    recorded = [head for head in heads if not is_scratch_key(head.key)]
    return (recorded or heads)[-1]


class Head(Protocol):
    """The newest checkpoint of a run or branch: a row, a member or a snapshot."""

    @property
    def entity(self) -> str: ...
    @property
    def trigger(self) -> str: ...
    @property
    def units_done(self) -> int: ...
    @property
    def units_total(self) -> int: ...


class BranchHead(Head, Protocol):
    """The newest checkpoint of a branch, with how its run ended there."""

    @property
    def ended_as(self) -> str: ...


def statuses_of(
    branches: Sequence[tuple[str, str]], first_branch: str, entity: str, of_newest: str
) -> tuple[str, str, dict[str, int]]:
    """The status of a run and of its newest checkpoint, and the number of its branches by status.

    ``branches`` are the recorded names and statuses of its branches, the newest last.
    A fork that failed or was cancelled does not decide about its run: that is completed if one branch is, and
    else has the status of the branch that it began on. An engine that continues a run only from its newest
    checkpoint has no other status than that.
    """
    counts = dict(Counter(status for _branch, status in branches))
    threads = {kind.name for kind in kinds_that(lambda kind: kind.resumes_last_only)}
    if entity in threads or len(branches) < 2:
        status = of_newest
    elif Run.Status.COMPLETED.value in counts:
        status = Run.Status.COMPLETED.value
    else:
        own = [found for branch, found in branches if branch == first_branch]
        status = next((found for found in reversed(own) if found not in ABANDONED), "")
    return (status if status in Run.Status.values else ""), of_newest, counts


def update_statuses(run_ids: Collection[int]) -> None:
    """Update the statuses of runs after checkpoints of theirs were marked with how they ended."""
    for run in Run.objects.filter(pk__in=run_ids):
        heads = list(run.checkpoints.filter(is_branch_head=True).order_by("row"))
        first = run.checkpoints.order_by("row").first()
        if not heads or first is None:
            continue
        newest = [head for head in heads if not head.is_scratch][-1:] or heads[-1:]
        status, of_newest, counts = statuses_of(
            [(head.recorded_branch, branch_status(head)) for head in heads],
            first.recorded_branch,
            newest[0].entity,
            branch_status(newest[0]),
        )
        Run.objects.filter(pk=run.pk).update(status=status, newest_status=of_newest, branch_statuses=counts)


def branch_status(head: BranchHead) -> str:
    """The status of a branch with this newest checkpoint: that of a run, or the last one of its job.

    ``unknown`` if nothing says whether the run ended there, and empty if it did not.
    """
    ended_as = "" if head.ended_as == Checkpoint.OPEN else head.ended_as
    return ended_as or status_after(head)


def status_after(head: Head) -> str:
    """The status that this newest checkpoint of a run implies; empty if it implies none.

    A run is completed when all its units are, also if its engine wrote no checkpoint at the end.
    """
    engines = all_engines()
    if head.trigger.endswith(tuple(suffix for one in engines for suffix in one.failure_suffixes)):
        return Run.Status.FAILED.value
    if head.trigger.endswith(tuple(suffix for one in engines for suffix in one.waiting_suffixes)):
        return Run.Status.WAITING.value
    if head.trigger.endswith(tuple(suffix for one in engines for suffix in one.unfinished_suffixes)):
        return Run.Status.UNFINISHED.value
    # An open-ended run has all its units only if it is known to have finished.
    has_all_units = 0 < head.units_done == head.units_total
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

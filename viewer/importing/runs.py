"""Runs: one for each lineage, with the same address after every import."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from viewer.importing.rows import in_slices
from viewer.lineage.lanes import Position
from viewer.lineage.tree import Lineage, LineageFault
from viewer.models import CheckpointBody, Location, Run, run_uid
from viewer.providers.packing import EVENT_BYTES

if TYPE_CHECKING:
    from viewer.importing.settling import Member

# Of a fault's checkpoints so many are named, and the others counted.
MOST_IDS_NAMED = 10
# A lineage, and the lane and row of each of its checkpoints.
LaidOut = tuple[Lineage, dict[str, Position]]


def stored_runs(location: Location, laid_out: Sequence[LaidOut], members: Mapping[str, Member]) -> list[Run]:
    """The run of each lineage, stored and up to date: the one of its oldest checkpoint, else a new one."""
    keys = [run_key(lineage, members) for lineage, _ in laid_out]
    known: dict[str, Run] = {}
    for some in in_slices(keys):
        known.update((run.key, run) for run in Run.objects.filter(location=location, key__in=some))
    runs = [known.get(key) or Run(location=location, key=key, uid=run_uid(location.uid, key)) for key in keys]
    for run, (lineage, positions) in zip(runs, laid_out, strict=True):
        summarize(run, lineage, members, 1 + max(position.lane for position in positions.values()))
    Run.objects.bulk_create([run for run in runs if run.pk is None], batch_size=500)
    for run in known.values():
        run.save()
    return runs


def run_key(lineage: Lineage, members: Mapping[str, Member]) -> str:
    """What the engine calls the oldest kickoff; where it calls it nothing, the oldest checkpoint's place."""
    return (lineage.run_key or f"checkpoint {members[lineage.places[0].key].key}")[:200]


def summarize(run: Run, lineage: Lineage, members: Mapping[str, Member], lane_count: int) -> None:
    """Bring a run's own columns up to date with its checkpoints."""
    mine = [members[place.key] for place in lineage.places]
    moments = [member.created_at for member in mine if member.created_at is not None]
    run.entity = next((member.entity for member in mine if member.entity != "unknown"), "unknown")
    run.name = next((member.name for member in reversed(mine) if member.name), "")[:300]
    run.first_at, run.last_at = min(moments, default=None), max(moments, default=None)
    run.checkpoint_count = len(mine)
    run.branch_count = len({member.branch for member in mine})
    run.lane_count = lane_count
    run.tokens = _tokens(lineage, members)
    run.lineage_faults = [_stored_fault(fault) for fault in lineage.faults]


def _stored_fault(fault: LineageFault) -> dict[str, Any]:
    ids = fault.checkpoint_ids
    return {"code": fault.code.value, "ids": list(ids[:MOST_IDS_NAMED]), "count": len(ids)}


def drop_empty(run_ids: Iterable[int]) -> None:
    """Delete those of the touched runs that have been merged into others."""
    for some in in_slices(sorted(run_ids)):
        Run.objects.filter(pk__in=some, checkpoints=None).delete()


def _tokens(lineage: Lineage, members: Mapping[str, Member]) -> int:
    """The tokens of every model call of the run, each call once, whichever branches repeat it."""
    calls: dict[bytes, int] = {}
    # Most checkpoints tell nothing that a child of theirs does not tell too.
    told = {
        place.parent
        for place in lineage.places
        if place.parent is not None and members[place.key].event_count >= members[place.parent].event_count
    }
    wanted = [members[place.key] for place in lineage.places if place.key not in told]
    for member in wanted:
        if member.read is not None:
            _add_calls(calls, member.read.event_ids, member.read.calls)
    stored = [member.pk for member in wanted if member.read is None]
    for some in in_slices(stored):
        for event_ids, its_calls in CheckpointBody.objects.filter(pk__in=some).values_list(
            "event_ids", "calls"
        ):
            _add_calls(calls, bytes(event_ids), its_calls)
    return sum(calls.values())


def _add_calls(calls: dict[bytes, int], event_ids: bytes, added: list[list[int]]) -> None:
    for position, tokens in added:
        calls[event_ids[position * EVENT_BYTES : (position + 1) * EVENT_BYTES]] = tokens

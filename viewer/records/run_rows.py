"""The rows of checkpoints and of their run."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Protocol

import msgspec
from django.db import connection
from django.db.models import F
from django.utils.crypto import salted_hmac

from viewer import postgresql
from viewer.engines import DEFAULT, all_engines, engine_named, kinds_that
from viewer.engines.protocol import kind_of
from viewer.models import Checkpoint, Location, Run, StoredCopy, is_scratch_key, run_uid
from viewer.models.rows import in_slices, insert_many, update_many, usage_values
from viewer.records import bucket
from viewer.records.lineage.lanes import Position
from viewer.records.lineage.tree import Lineage, LineageFault
from viewer.stores.protocol import EVENT_BYTES, ModelCall, Packed, PackedCall, PackedSession, usage_by_model

# The rows of checkpoints, written in bulk: an import may bring thousands at once.


@dataclass(frozen=True, slots=True)
class KnownRow:
    """The columns of a row that are compared with a listing of the location."""

    pk: int
    fingerprint: str
    state: str


def known_rows(
    location: Location, keys: Collection[str] | None = None, runs: Collection[int] | None = None
) -> dict[str, KnownRow]:
    """The stored checkpoints of a location, or those of a few keys or runs, by key."""
    rows = Checkpoint.objects.filter(location=location).order_by()
    if keys is not None:
        rows = rows.filter(source_key__in=keys)
    if runs is not None:
        rows = rows.filter(run__in=runs)
    found = rows.values_list("source_key", "pk", "fingerprint", "state")
    return {
        key: KnownRow(pk, fingerprint, state)
        for key, pk, fingerprint, state in found.iterator(chunk_size=5000)
    }


def mark_states(location: Location, keys: Sequence[str], state: Checkpoint.State) -> int:
    """Set the state of the checkpoints with these keys. Return the number of changed rows."""
    rows = Checkpoint.objects.filter(location=location).exclude(state=state)
    return sum(rows.filter(source_key__in=some).update(state=state) for some in in_slices(keys))


@dataclass(slots=True)
class LineageColumns:
    """The columns of a checkpoint that its lineage determines."""

    run_id: int
    parent_id: int | None
    parent_link: str
    lane: int
    row: int
    is_branch_head: bool
    branch: str


@dataclass(frozen=True, slots=True)
class NewRow:
    """A checkpoint to be stored. ``parent_key`` is the source key of its parent, which may also be new."""

    read: Packed
    lineage: LineageColumns
    parent_key: str | None


def insert(location: Location, new: Sequence[NewRow]) -> dict[str, int]:
    """Store new checkpoints, parents before children, with the bodies that were read.

    Returns primary keys by key.
    """
    location_id, present = location.pk, Checkpoint.State.PRESENT.value
    values = [
        (
            *(location_id, row.read.key, present, *_own_values(row.read)),
            *(*_position_values(row.lineage), location_id, row.parent_key),
        )
        for row in new
    ]
    # Primary keys ascend, and no other process inserts rows during this transaction.
    before = Checkpoint.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    insert_many(Checkpoint, _CHECKPOINT_COLUMNS, values, {"parent_id": _PARENT_BY_KEY})
    stored = Checkpoint.objects.filter(location=location, pk__gt=before).order_by()
    pks = dict(stored.values_list("source_key", "pk"))
    copied = [row.read for row in new if row.read.data or row.read.object_key]
    bucket.name_objects([read.object_key for read in copied if read.object_key])
    insert_many(StoredCopy, _COPY_COLUMNS, [_copy(pks[read.key], read) for read in copied])
    return pks


def overwrite(read_again: Sequence[tuple[int, Packed]]) -> None:
    """Store checkpoints that were read again."""
    present = Checkpoint.State.PRESENT.value
    pks = [pk for pk, _read in read_again]
    complete = [
        found
        for some in in_slices(pks)
        for found in Checkpoint.objects.filter(
            pk__in=some, ended_as=Checkpoint.COMPLETED, units_total=F("units_done")
        ).values_list("pk", "units_done")
    ]
    update_many(
        Checkpoint, ("state", *_OWN_COLUMNS), [(present, *_own_values(read), pk) for pk, read in read_again]
    )
    for pk, done in complete:
        # The checkpoint itself does not say that it is the last one.
        Checkpoint.objects.filter(pk=pk, units_done=done).update(units_total=done)
    copied = {pk: read for pk, read in read_again if read.data or read.object_key}
    for some in in_slices(list(copied)):
        bucket.release(StoredCopy.objects.filter(pk__in=some))
    bucket.name_objects([read.object_key for read in copied.values() if read.object_key])
    copies = [(*_copy(pk, read)[1:], pk) for pk, read in copied.items()]
    update_many(StoredCopy, _COPY_COLUMNS[1:], copies)


def move(moved: Sequence[tuple[int, LineageColumns]]) -> None:
    """Change the lineage columns of stored checkpoints."""
    values = [(*_position_values(lineage), lineage.parent_id, pk) for pk, lineage in moved]
    update_many(Checkpoint, _LINEAGE_COLUMNS, values)


_OWN_COLUMNS = (
    *("fingerprint", "size", "checkpoint_id", "parent_checkpoint_id", "run_key", "recorded_branch"),
    *("trigger", "subject", "created_at"),
    *("engine_version", "entity", "is_open_ended", "name", "units_done", "units_total"),
    *("event_count", "tokens"),
    *("step", "turn", "units"),
)
_LINEAGE_COLUMNS = ("run_id", "parent_link", "lane", "row", "is_branch_head", "branch", "parent_id")
_CHECKPOINT_COLUMNS = ("location_id", "source_key", "state", *_OWN_COLUMNS, *_LINEAGE_COLUMNS)
# A checkpoint's primary key, by its location and source key: the database assigns it during the import.
_PARENT_BY_KEY = f"(SELECT id FROM {Checkpoint._meta.db_table} WHERE location_id = %s AND source_key = %s)"  # noqa: S608
_COPY_COLUMNS = ("checkpoint_id", "data", "object_id", "event_ids", "calls", "sessions", "source_digest")


def _own_values(read: Packed) -> tuple[Any, ...]:
    """The values of the columns that the checkpoint itself determines, cut to their maximum lengths."""
    snapshot = read.snapshot
    return (
        snapshot.fingerprint,
        snapshot.size,
        snapshot.checkpoint_id[:300],
        (snapshot.parent_id or "")[:300],
        snapshot.run_key[:200],
        snapshot.branch[:300],
        snapshot.trigger[:100],
        snapshot.subject[:300],
        moment(snapshot.created_at),
        snapshot.engine_version[:50],
        snapshot.entity,
        _is_open_ended(snapshot.engine, snapshot.entity),
        snapshot.name[:300],
        snapshot.units_done,
        snapshot.units_total,
        read.event_count,
        read.tokens,
        snapshot.step,
        snapshot.turn,
        _json(snapshot.units),
    )


@lru_cache(maxsize=100)
def _is_open_ended(engine: str, kind: str) -> bool:
    return kind_of(engine_named(engine or DEFAULT), kind).is_open_ended


def _position_values(lineage: LineageColumns) -> tuple[Any, ...]:
    """The values of all lineage columns but the parent's."""
    position = (lineage.run_id, lineage.parent_link, lineage.lane, lineage.row, lineage.is_branch_head)
    return *position, lineage.branch[:300]


def _copy(pk: int, read: Packed) -> tuple[Any, ...]:
    calls, sessions = _json(read.calls), _json(read.sessions)
    digest = keyed_digest(read.snapshot.source_digest)
    return pk, read.data, read.object_key, read.event_ids, calls, sessions, digest


def _json(value: Any) -> str:
    return postgresql.without_nul(msgspec.json.encode(value).decode())


def keyed_digest(digest: str) -> str:
    """What is stored of a digest: with a key, since the digest could confirm a guessed secret."""
    return salted_hmac("source digest", digest, algorithm="sha256").hexdigest() if digest else ""


@lru_cache(maxsize=1000)
def moment(at: datetime | None) -> Any:
    """The time as text, in the format of the database."""
    if at is not None and at.tzinfo is UTC and not postgresql.is_used():
        # Django's conversion takes ten times as long.
        return str(at.replace(tzinfo=None))
    return None if at is None else connection.ops.adapt_datetimefield_value(at)


# The checkpoints of the runs that an import affects.


@dataclass(slots=True)
class Member:
    """A checkpoint of an affected run, stored or just read."""

    # None until it is stored.
    pk: int | None
    key: str
    checkpoint_id: str
    parent_id: str | None
    run_key: str
    branch: str
    created_at: datetime | None
    event_count: int
    entity: str
    name: str
    units_done: int
    units_total: int
    trigger: str
    # Checkpoint.ended_as
    ended_as: str = ""
    read: Packed | None = None
    before: LineageColumns | None = None


# The usage of a run: model calls and working time, from the records of its checkpoints.


# The columns of a run without model calls and with unknown working time.
NOTHING_USED: list[Any] = [*usage_values([]), None]


@dataclass(slots=True)
class RecordedUsage:
    """The model calls and working periods of a run, by event, so that repeated events count once."""

    calls: dict[bytes, ModelCall] = field(default_factory=dict)
    # The start and end of each period, in seconds since the epoch.
    sessions: dict[bytes, tuple[float, float]] = field(default_factory=dict)

    def add(self, event_ids: bytes, calls: Iterable[PackedCall], sessions: Iterable[PackedSession]) -> None:
        """Add the records of one checkpoint."""
        for call in calls:
            self.calls[_event(event_ids, call.position)] = call.call
        for session in sessions:
            event = _event(event_ids, session.position)
            start, end = self.sessions.get(event, (session.start, session.end))
            self.sessions[event] = min(start, session.start), max(end, session.end)

    @property
    def values(self) -> list[Any]:
        """The values of ``Metered.USAGE_COLUMNS``, and the seconds that the run worked."""
        usage = [list(one) for one in usage_by_model(self.calls.values())]
        seconds = sum(end - start for start, end in self.sessions.values())
        return [*usage_values(usage), round(seconds, 3) if self.sessions else None]


def _event(event_ids: bytes, position: int) -> bytes:
    return event_ids[position * EVENT_BYTES : (position + 1) * EVENT_BYTES]


def recorded_usage(lineages: Sequence[Lineage], members: Mapping[str, Member]) -> list[RecordedUsage | None]:
    """The usage of each lineage's run; None if its checkpoints record no events at all."""
    found: list[RecordedUsage | None] = []
    stored: dict[int, RecordedUsage] = {}
    for lineage in lineages:
        if not any(members[node.key].event_count for node in lineage.nodes):
            found.append(None)
            continue
        usage = RecordedUsage()
        found.append(usage)
        for member in _with_own_events(lineage, members):
            if member.read is not None:
                usage.add(member.read.event_ids, member.read.calls, member.read.sessions)
            elif member.pk is not None:
                stored[member.pk] = usage
    for some in in_slices(list(stored)):
        copies = StoredCopy.objects.filter(pk__in=some)
        for pk, event_ids, calls, sessions in copies.values_list("pk", "event_ids", "calls", "sessions"):
            packed = (PackedCall(*call) for call in calls), (PackedSession(*one) for one in sessions)
            stored[pk].add(bytes(event_ids), *packed)
    return found


def _with_own_events(lineage: Lineage, members: Mapping[str, Member]) -> Iterator[Member]:
    """The members whose events are not repeated by a child."""
    covered = {
        node.parent
        for node in lineage.nodes
        if node.parent is not None and members[node.key].event_count >= members[node.parent].event_count
    }
    return (members[node.key] for node in lineage.nodes if node.key not in covered)


# The rows of runs.


# The number of checkpoints that are named for a lineage fault. The others are counted.
MAX_IDS_NAMED = 10
# Statuses of a branch that say nothing about its run.
ABANDONED = frozenset({"cancelled", "interrupted", "unknown"})
# A lineage, and the lane and row of each of its checkpoints.
LaidOut = tuple[Lineage, dict[str, Position]]
# The columns that a run's checkpoints determine, and their values.
_RUN_COLUMNS = (
    *("entity", "name", "first_at", "last_at", "checkpoint_count", "branch_count", "lane_count"),
    *("units_known", "all_units_known", "status", "newest_status", "branch_statuses"),
    *Run.USAGE_COLUMNS,
    *("seconds", "lineage_faults"),
)
_JSON = frozenset({"usage", "branch_statuses", "lineage_faults"})
Summary = list[Any]
# The usage part of a summary. It begins with the tokens.
_USAGE = slice(_RUN_COLUMNS.index("tokens"), _RUN_COLUMNS.index("lineage_faults"))


def stored_runs(location: Location, laid_out: Sequence[LaidOut], members: Mapping[str, Member]) -> list[int]:
    """Store or update the run of each lineage. Return the primary keys.

    The run is that of the lineage's oldest checkpoint, or a new one.
    """
    recorded = recorded_usage([lineage for lineage, _ in laid_out], members)
    keys = [run_key(lineage, members) for lineage, _ in laid_out]
    stored = {key: (pk, summary) for key, pk, *summary in _stored(location, keys, _RUN_COLUMNS)}
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
    update_many(Run, _RUN_COLUMNS, [(*_as_stored(summary), pks[key]) for key, summary in changed])
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
    insert_many(Run, ("uid", "location_id", "key", *_RUN_COLUMNS), values)
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
    values = dict(zip(_RUN_COLUMNS, summary, strict=True))
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

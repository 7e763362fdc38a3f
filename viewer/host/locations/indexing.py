"""Index a store that is too large to be copied: its runs first, the checkpoints of a run when it is opened.

Bodies are not stored: ``records.bodies`` reads them from the source when a checkpoint is opened. Only the
bodies of a job's scratch store are copied.
"""

import gc
import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.db import transaction

from viewer.engines import engine_of
from viewer.host.locations.sources import (
    ImportSummary,
    import_lock,
    read_limits,
    record,
    refresh,
    update_locked,
    with_reader,
)
from viewer.host.project_secrets import secrets_for
from viewer.host.reading.location_reader import LocationAddress, LocationReader, open_reader
from viewer.models import Checkpoint, Job, JobEvent, Location, Run, run_uid
from viewer.models.rows import in_slices, insert_many, update_many
from viewer.records import bucket
from viewer.records.bodies import decoded_copy
from viewer.records.indexed_runs import called_runs, store_index, store_runs, usable_cursor, used_columns
from viewer.records.locations import Problems, is_indexed
from viewer.records.reconciling import reconcile
from viewer.records.run_rows import known_rows, moment
from viewer.stores.protocol import Entry, IndexedRun, LocationUnreadable, Packed

# The newest runs, whose status is read at every change of the store: a pending write changes no head.
MAX_WATCHED = 100
# Those whose status is read before the page of a new location shows them: about as many as a window has rows.
MAX_FIRST = 25
# Runs whose status is read in one batch, and the seconds of one import for runs of unknown status.
DETAILS_BATCH, DETAILS_SECONDS = 250, 0.4
# The same for their inputs, for which two checkpoints of each run are read.
INPUTS_BATCH, INPUTS_SECONDS = 20, 0.25
# The columns that the details of a run determine and a page shows.
_SHOWN = ("status", "is_forked", "checkpoint_count")
_NEW_RUN = ("uid", "location_id", "key", "entity", "name", "head", "last_at")
# Known only after a thread has been indexed.
_EMPTY = {
    "checkpoint_count": 0,
    "branch_count": 0,
    "lane_count": 0,
    "tokens": 0,
    "units_known": 0,
    "all_units_known": False,
    "lineage_faults": "[]",
}


def update_runs(location: Location, reader: LocationReader) -> ImportSummary:
    """Bring the list of runs up to date. Requires the import lock. Raises LocationUnreadable."""
    summary, mark = ImportSummary(), reader.mark
    if location.listed_fingerprint != mark:
        # The page of a new location shows its newest runs before the others are listed.
        is_complete = location.runs.exists()
        limit = None if is_complete else MAX_WATCHED
        _list(location, reader, limit, summary)
        is_first = not is_complete and summary.added >= MAX_WATCHED
        watched = location.runs.top_level()[: MAX_FIRST if is_first else MAX_WATCHED]
        summary.is_news |= _describe(location, reader, list(watched.values_list("key", flat=True)))
        if is_first:
            # The inputs and all others follow at once.
            return summary
        Location.objects.filter(pk=location.pk).update(listed_fingerprint=mark)
        location.listed_fingerprint = mark
    summary.is_news |= _describe_others(location, reader)
    summary.is_news |= _describe_inputs(location, reader)
    return summary


# Parts of the list of runs: a listing since these digests returns only the runs of the parts that differ.
#
# The digest of a run's key names its part. The digest of a part is made from the keys of its runs and their
# newest checkpoints, in the order of the keys. A query of ``PostgresqlRows`` computes the same digests.


def part_of(key: str) -> str:
    """The part that a run with this key is in."""
    return _digest(key)[:2]


def digests_of(heads: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """The digest of each part that has runs, from their keys and newest checkpoints."""
    parts: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for key, head in heads:
        parts[part_of(key)].append((key, head))
    return {
        part: _digest("\n".join(f"{key} {head}" for key, head in sorted(runs)))
        for part, runs in parts.items()
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _list(location: Location, reader: LocationReader, limit: int | None, summary: ImportSummary) -> None:
    """Store the existing runs, up to a limit, with the newest checkpoint of each."""
    stored = location.runs.top_level().order_by().values_list("key", "pk", "head")
    known = {key: (pk, head) for key, pk, head in stored}
    heads = ((key, head) for key, (_pk, head) in known.items())
    listed = reader.runs(limit, digests_of(heads) if limit is None else None)
    problems = Problems(location, reader.limits)
    for problem in listed.problems:
        problems.add(problem)
    new = {run.key: run for run in reversed(listed.runs) if run.key not in known}
    changed = [run for run in listed.runs if run.key in known and known[run.key][1] != run.head]
    gone = known.keys() - {run.key for run in listed.runs}
    if listed.parts is not None:
        gone = {key for key in gone if part_of(key) in listed.parts}
    with transaction.atomic():
        _insert(location, list(new.values()))
        moved = [(run.head, moment(run.last_at), known[run.key][0]) for run in changed]
        update_many(Run, ("head", "last_at"), moved)
        _mark_gone([known[key][0] for key in gone])
        summary.is_news |= problems.save()
    summary.added, summary.changed, summary.problems = len(new), len(changed), len(problems)
    summary.is_news |= bool(new or changed or gone)


def _insert(location: Location, new: Sequence[IndexedRun]) -> None:
    """Store runs of which only the newest checkpoint is known, the newest run last."""
    rows = []
    for run in new:
        uid = run_uid(location.uid, run.key).hex
        own = (uid, location.pk, run.key, "", run.name, run.head, moment(run.last_at))
        rows.append((*own, *_EMPTY.values()))
    insert_many(Run, (*_NEW_RUN, *_EMPTY), rows)


def _mark_gone(pks: Sequence[int]) -> None:
    """Delete missing runs. Of runs with stored copies, mark the checkpoints as pruned instead."""
    for some in in_slices(pks):
        source = Checkpoint.objects.exclude(Checkpoint.IS_SCRATCH)
        source = source.exclude(state__in=(Checkpoint.State.PRUNED, Checkpoint.State.NO_COPY))
        if source.filter(run__in=[*some, *called_runs(some)]).update(state=Checkpoint.State.PRUNED):
            # If a run is there again, all of its checkpoints are compared.
            Run.objects.filter(pk__in=some).update(indexed_fingerprint="", listed_state="")
        Run.objects.filter(pk__in=some, checkpoints=None, jobs=None).delete()


def _describe_others(location: Location, reader: LocationReader) -> bool:
    """Read the status of runs whose newest checkpoint has changed since, newest first."""
    started, is_news = time.monotonic(), False
    while time.monotonic() - started < DETAILS_SECONDS:
        due = location.runs.undescribed()[:DETAILS_BATCH]
        if not (keys := list(due.values_list("key", flat=True))):
            break
        is_news |= _describe(location, reader, keys)
    return is_news


def _describe(location: Location, reader: LocationReader, keys: Sequence[str]) -> bool:
    """Read the status of these runs. Return whether a page has to be refreshed."""
    details = {run.key: run for run in reader.details(keys)} if keys else {}
    before = location.runs.filter(key__in=keys).order_by()
    columns = ("pk", "key", "head", "described_head", "indexed_fingerprint", "tokens", *_SHOWN)
    changed, starts, used = [], [], []
    is_news = False
    for pk, key, head, described_head, fingerprint, tokens, *shown in before.values_list(*columns):
        run = details.get(key)
        if run and run.calls and sum(call.tokens for call in run.calls) > tokens:
            used.append((*_as_stored(used_columns(run.calls)), pk))
        now = [run.status, run.is_forked, run.count] if run else list(shown)
        if head == described_head and not now[0] and shown[0] == Run.Status.COMPLETED:
            # Only the newest checkpoint has the status.
            now[0] = shown[0]
        if fingerprint:
            # The status from its lineage is more precise.
            now[1:] = shown[1:]
        is_news |= now != shown
        changed.append((head, *now, pk))
        if run:
            starts.append((moment(run.first_at), pk))
    with transaction.atomic():
        update_many(Run, ("described_head", *_SHOWN), changed)
        update_many(Run, ("first_at",), starts)
        update_many(Run, (*Run.USAGE_COLUMNS, "is_priced"), used)
    return is_news or bool(used)


def _describe_inputs(location: Location, reader: LocationReader) -> bool:
    """Read the inputs of runs without a description, newest first, within a time limit.

    Returns whether a page has to be refreshed.
    """
    started, is_news = time.monotonic(), False
    while time.monotonic() - started < INPUTS_SECONDS:
        pks = dict(location.runs.without_inputs().values_list("key", "pk")[:INPUTS_BATCH])
        if not pks:
            break
        copies = {run.key: run.copies for run in reader.details(list(pks))}
        entries = [Entry(copy, "", 0) for some in copies.values() for copy in some]
        read = {one.key: one.data for one in reader.read_all(entries, 1) if isinstance(one, Packed)}
        found = {pk: [read[copy] for copy in copies.get(key, ()) if copy in read] for key, pk in pks.items()}
        _store_inputs(location, pks, found)
        is_news = True
    return is_news


# What distinguishes a run from others of its name: its inputs.

# Inputs of a run, and characters of one.
MAX_INPUTS, MAX_CHARACTERS = 12, 120


def _store_inputs(location: Location, pks: Mapping[str, int], read: Mapping[int, Sequence[bytes]]) -> None:
    """Store the inputs of runs, by key, from compressed copies of their first and newest checkpoints."""
    edited = _edited_names(location, pks)
    found = {
        pk: described_inputs(location, map(decoded_copy, copies), edited.get(pk, ()))
        for pk, copies in read.items()
    }
    rows = [(json.dumps(inputs), True, pk) for pk, inputs in found.items()]
    update_many(Run, ("inputs", "is_described"), rows)


def _edited_names(location: Location, pks: Mapping[str, int]) -> dict[int, list[str]]:
    """The names of the edited values of the runs, by key, as which forks were published."""
    events = JobEvent.objects.filter(kind="published", job__location=location, data__thread__in=list(pks))
    found: dict[int, list[str]] = {}
    for event in events.select_related("job", "job__checkpoint").order_by("job__created_at"):
        job = event.job
        if job.kind == Job.Kind.PUBLISH and job.checkpoint is not None and job.checkpoint.is_scratch:
            job = Job.objects.filter(pk=job.checkpoint.scratch_job).first() or job
        names = [name for part in ("inputs", "state") for name in job.request.get(part) or {}]
        found[pks[str(event.data["thread"])]] = names
    return found


def described_inputs(
    location: Location, bodies: Iterable[dict[str, Any]], edited: Collection[str] = ()
) -> list[list[str]]:
    """The inputs of the first of these checkpoints that names any, or the edited values of a fork."""
    engine = engine_of(location)
    contents = [engine.contents_of(body) for body in bodies]
    inputs = engine.edited_inputs(contents[0], contents[-1], edited) if edited and contents else {}
    inputs = inputs or next(filter(None, map(engine.run_inputs, contents)), {})
    return [[name[:MAX_CHARACTERS], _short_text(value)] for name, value in inputs.items()][:MAX_INPUTS]


def _short_text(value: Any) -> str:
    """The value as one line of at most ``MAX_CHARACTERS``."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    line = " ".join(text[: 4 * MAX_CHARACTERS].split())
    return line if len(line) <= MAX_CHARACTERS else f"{line[: MAX_CHARACTERS - 1].rstrip()}…"


# The checkpoints of a run.


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the collector. Listing one run takes about a second and creates hardly any garbage.

    Traversing the rows of a long run repeatedly takes 40 % of its time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def import_run(run: Run, *, newest_first: bool = False) -> ImportSummary:
    """Bring the checkpoints of a run up to date, if its location is only indexed.

    With ``newest_first``, a long run that was never listed is only partly listed: a page shows the newest
    checkpoints, and the worker or the next request lists the others.

    A read error is not recorded, since other runs of the location may be readable.
    """
    location = run.location
    if not is_indexed(location):
        return ImportSummary()

    def update() -> ImportSummary:
        summary = with_reader(location, lambda reader: update_run(run, reader, newest_first=newest_first))
        if summary.is_news and not summary.read_error:
            record(location, summary)
        return summary

    return update_locked(location, update)


def update_run(run: Run, reader: LocationReader, *, newest_first: bool = False) -> ImportSummary:
    """Bring the checkpoints of a run, and of the runs that it called, up to date. Requires the import lock.

    With ``newest_first``, store only those of a long new run that a page shows first. Raises
    LocationUnreadable.
    """
    summary, mark = ImportSummary(), reader.mark
    # Another process may have deleted the run, or forgotten its index, since it was loaded.
    try:
        run.refresh_from_db(fields=["parent", "indexed_fingerprint"])
    except Run.DoesNotExist:
        return summary
    top = run.outermost
    if top.indexed_fingerprint == mark:
        return summary
    with collection_paused():
        is_first, runs = newest_first and not top.checkpoints.exists(), [top.pk, *called_runs([top.pk])]
        index = reader.index(top.key, newest_first=is_first, since=usable_cursor(top, runs))
        summary.added, summary.changed, summary.pruned = store_index(top, runs, index, mark)
    summary.is_news = bool(summary.added or summary.changed or summary.pruned)
    return summary


def import_scratch(run: Run, store: Path, job: str, branch: str, forked: str = "") -> ImportSummary:
    """Import the new checkpoints of a job's scratch store, with stored copies, into the run that it forked.

    The scratch store is another source of the same run. That of an indexed store begins with a copy of the
    forked checkpoint, which is not imported again. Otherwise its first checkpoint follows ``forked``, which
    is the id of the forked one.
    """
    if Run.objects.filter(pk=run.outermost.pk, is_partly_listed=True).exists():
        import_run(run)
    location = run.location
    with import_lock(location):
        if not refresh(location):
            return ImportSummary()
        secrets = secrets_for(location.project)
        address = LocationAddress(store, read_limits(), [store.parent], "", secrets, location.engine)
        try:
            with open_reader(address) as reader:
                prefix = Checkpoint.scratch_prefix(job)
                if is_indexed(location):
                    summary = _import_from_scratch(run.outermost, reader, prefix, branch)
                else:
                    summary = _import_rows(run, reader, prefix, branch, forked)
        except LocationUnreadable as error:
            return ImportSummary(read_error=error.message)
        if summary.is_news:
            record(location, summary)
    return summary


def _import_from_scratch(run: Run, reader: LocationReader, prefix: str, branch: str) -> ImportSummary:
    location, index = run.location, reader.index(run.key)
    runs = [run.pk, *called_runs([run.pk])]
    stored = Checkpoint.objects.filter(run__in=runs).exclude(source_key__startswith=prefix)
    others = set(stored.values_list("checkpoint_id", flat=True))
    known = known_rows(location, runs=runs)
    new = [one for one in index.snapshots if one.checkpoint_id not in others]
    due = {
        one.key: replace(one, key=f"{prefix}{one.key}", branch=branch)
        for one in new
        if (before := known.get(f"{prefix}{one.key}")) is None or before.fingerprint != one.fingerprint
    }
    if not due:
        return ImportSummary()
    entries = [Entry(key, one.fingerprint, one.size) for key, one in due.items()]
    copies = [one for one in reader.read_all(entries, 1) if isinstance(one, Packed)]
    packed = bucket.with_objects([Packed(due[one.key], one.data, b"", []) for one in copies])
    listed = set(location.runs.filter(key__in=[one.key for one in index.runs]).values_list("key", flat=True))
    with transaction.atomic():
        reconcile(location, packed, connects_runs=False)
        store_runs(location, [one for one in index.runs if one.key not in listed], "")
    return ImportSummary(added=len(packed), is_news=bool(packed))


def _import_rows(run: Run, reader: LocationReader, prefix: str, branch: str, forked: str) -> ImportSummary:
    known = known_rows(run.location, runs=[run.pk])
    listed = [one for one in reader.listing().items if isinstance(one, Entry)]
    due = [
        one
        for one in listed
        if (row := known.get(f"{prefix}{one.key}")) is None or row.fingerprint != one.fingerprint
    ]
    found = [one for one in reader.read_all(due, 1) if isinstance(one, Packed)]
    for one in found:
        # The engine gives a fork another id. Here it is a branch of the run that it forked.
        one.snapshot = replace(
            one.snapshot,
            key=f"{prefix}{one.key}",
            branch=branch,
            run_key=run.key,
            parent_id=one.snapshot.parent_id or forked,
        )
    if found:
        read = bucket.with_objects(found)
        with transaction.atomic():
            reconcile(run.location, read, connects_runs=False)
    return ImportSummary(added=len(found), is_news=bool(found))


def _as_stored(columns: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(json.dumps(value) if name == "usage" else value for name, value in columns.items())

"""What imports leave for later: descriptions of runs, and copies of the checkpoints of indexed locations.

Imports store the rows of checkpoints first. This follows in the worker, or before a command that shows it.
The rows determine what is due, so any process can continue where a killed one stopped.
"""

import hashlib
import json
import logging
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, OuterRef, Q, QuerySet, Subquery

from viewer.data_folder.changes import in_background
from viewer.engines import engine_of
from viewer.engines.protocol import Engine
from viewer.host.confined import confined
from viewer.host.locations.indexing import described_inputs, import_run
from viewer.host.locations.sources import address_of, import_lock, refresh
from viewer.host.permitted import refusal_of
from viewer.host.projects import propose_project
from viewer.host.reading.location_reader import open_reader
from viewer.host_requests import JobRefused
from viewer.models import Annotation, Checkpoint, Job, Location, Run, StoredCopy
from viewer.models.jobs import UNFINISHED
from viewer.models.rows import in_slices, update_many
from viewer.models.runs import body_size
from viewer.records import bucket
from viewer.records.annotations import comments_at, is_commented
from viewer.records.bodies import stored_body
from viewer.records.bucket import BucketAway
from viewer.records.collections import collected_ids
from viewer.records.indexed_runs import called_runs
from viewer.records.locations import is_indexed
from viewer.records.prices import current_prices, price_runs
from viewer.records.run_rows import update_statuses
from viewer.stores.protocol import Entry, LocationUnreadable, Packed

logger = logging.getLogger(__name__)

# Seconds of one step in the background that describes runs, and runs of one batch.
STEP_SECONDS, BATCH = 0.4, 50
QUIET_SECONDS = 0.1
# Seconds until the next attempt to read what could not be read.
RETRY_SECONDS = 60.0
# When the next attempt to describe runs is due, of locations with a project whose source cannot be read, by
# primary key, on the monotonic clock.
_describe_at: dict[int, float] = {}


def completing_imports() -> AbstractContextManager[None]:
    """Complete what imports leave for later, in a thread within the block."""
    return in_background("completing-imports", complete_some, QUIET_SECONDS, RETRY_SECONDS)


def complete_some() -> bool:
    """List, describe and copy some of what is due. Returns whether there may be more to do."""
    partly = Run.objects.filter(is_partly_listed=True, location__in=Location.objects.here())
    for run in partly.select_related("location"):
        import_run(run)
    has_described = [_described(location) for location in locations_to_describe()]
    if bucket.is_used():
        bucket.delete_unused()
    has_moved = bucket.move_some(Location.objects.here())
    return copy_some() or has_moved or any(has_described)


def _described(location: Location) -> bool:
    """Describe some runs of a location. Return whether any were due, and its project's source can be read."""
    if _describe_at.get(location.pk, 0.0) > time.monotonic():
        return False
    try:
        return describe_runs(location, max_seconds=STEP_SECONDS)
    except JobRefused as refused:
        logger.warning("the runs of %s are not described: %s", location, refused)
        _describe_at[location.pk] = time.monotonic() + RETRY_SECONDS
        return False


# What lists show of runs besides their checkpoints: their inputs, costs and unrecorded ends. All are stored
# with the run, because a list has hundreds of rows.


def locations_to_describe() -> list[Location]:
    """The locations with runs whose inputs or cost are not stored yet, or whose prices have changed."""
    digest = current_prices().digest
    return [
        location
        for location in Location.objects.here().order_by("pk")
        if location.price_digest != digest
        or location.runs.filter(is_priced=False).exists()
        or (
            not is_indexed(location)
            and (location.runs.without_inputs().exists() or _undecided_ends(location).exists())
        )
    ]


def find_ends(location: Location) -> None:
    """Find the ends of runs that their checkpoints do not record, as ``describe_runs`` does.

    Raises OSError if the lock file cannot be opened.
    """
    if not is_indexed(location) and _undecided_ends(location).exists():
        with import_lock(location):
            location.refresh_from_db(fields=["project"])
            with suppress(BucketAway):
                while _find_ends(location):
                    pass


def describe_runs(location: Location, *, max_seconds: float = math.inf) -> bool:
    """Store the inputs, costs and ends of runs, newest first, and refresh open pages.

    Returns whether any were due.

    With a time limit, this is a step in the background: it does nothing while another process imports the
    location. Raises OSError if the lock file cannot be opened.
    """
    with import_lock(location, wait=max_seconds == math.inf) as is_ours:
        if not is_ours or not location.refresh_if_exists():
            return False
        location.refresh_from_db(fields=["price_digest", "project"])
        started, is_news = time.monotonic(), price_runs(location)
        # An import of an indexed location reads the inputs at the source.
        # Without its copies, a run is described later.
        with suppress(BucketAway):
            while not is_indexed(location) and time.monotonic() - started < max_seconds:
                if not (_describe_batch(location) or _find_ends(location)):
                    break
                is_news = True
        if is_news:
            location.mark_changed()
        return is_news


def _describe_batch(location: Location) -> bool:
    """Describe a batch of runs by the inputs in their first checkpoints. Returns whether there were any."""
    checkpoints = Checkpoint.objects.filter(run=OuterRef("pk"))
    readable = checkpoints.exclude(state=Checkpoint.State.NO_COPY).order_by("row")
    due = location.runs.without_inputs().annotate(first_pk=Subquery(readable.values("pk")[:1]))
    runs = list(due.values_list("pk", "first_pk", "newest_status", "status")[:BATCH])
    pks = [first_pk for _pk, first_pk, *_statuses in runs if first_pk is not None]
    found = Checkpoint.objects.select_related("stored_copy", "location").in_bulk(pks)
    described = []
    for pk, first_pk, *_statuses in runs:
        inputs = described_inputs(location, [stored_body(found[first_pk])]) if first_pk in found else []
        described.append((json.dumps(inputs), True, pk))
    update_many(Run, ("inputs", "is_described"), described)
    # Runs that an earlier version imported have no status yet.
    update_statuses([pk for pk, _first_pk, *statuses in runs if not any(statuses)])
    return bool(runs)


def _undecided_ends(location: Location) -> QuerySet[Checkpoint]:
    """The newest checkpoints of branches of which only the project's source shows whether they are ends."""
    kinds = engine_of(location).kinds.values()
    triggers = {kind.last_trigger for kind in kinds if kind.last_trigger}
    entities = [kind.name for kind in kinds if kind.last_trigger]
    if not location.runs.filter(entity__in=entities).exists():
        # Most locations need no search among all their checkpoints.
        return location.checkpoints.none()
    found = location.checkpoints.filter(
        is_branch_head=True, is_open_ended=True, ended_as="", trigger__in=triggers, units_total=0
    )
    unreadable = (Checkpoint.State.NO_COPY, Checkpoint.State.BROKEN)
    return found.exclude(state__in=unreadable).exclude(run__jobs__status__in=UNFINISHED)


def _find_ends(location: Location) -> bool:
    """Ask the project's source for a batch of undecided ends. Returns whether there were any."""
    engine, asked = engine_of(location), set[int]()
    heads = list(_undecided_ends(location).select_related("stored_copy", "location").order_by("-pk")[:BATCH])
    folder, points = _source_of(location) if heads else (Path(), [])
    for head in heads:
        source = confined(folder, partial(_source, engine, folder, points, head.entity, head.name))
        if source is None:
            ended_as = Checkpoint.UNKNOWN
        else:
            has_finished = engine.has_finished(engine.contents_of(stored_body(head)), source)
            ended_as = Checkpoint.COMPLETED if has_finished else Checkpoint.OPEN
        Checkpoint.objects.filter(pk=head.pk, ended_as="").update(ended_as=ended_as)
        asked.add(head.run_id)
    update_statuses(asked)
    return bool(heads)


def _source(engine: Engine[Any], folder: Path, points: list[str], entity: str, name: str) -> Any:
    """What the source of an entry point shows; None if it is not clear which one that is."""
    entry_point = engine.entry_point_for(folder, points, entity, name) if points else ""
    return engine.read_source(folder, entry_point, entity) if entry_point else None


def _source_of(location: Location) -> tuple[Path, list[str]]:
    """The folder and entry points of a location's project, or of the one that contains the location."""
    if location.project is not None:
        if refusal_of(location.project.folder):
            return Path(), []
        return Path(location.project.folder), list(location.project.entry_points)
    return _proposed_source(location.path, location.engine)


@lru_cache(maxsize=100)
def _proposed_source(path: str, engine: str) -> tuple[Path, list[str]]:
    """Searched once by each process, because all source files below a folder are read."""
    found = confined(Path(path), lambda: propose_project(Path(path), engine))
    return found.folder, [point.name for point in found.entry_points]


# Copies of the checkpoints of forked and annotated runs of indexed locations.

# Checkpoints of one slice, and their bytes. They bound the time for which other imports of the location wait.
MAX_SLICE, MAX_SLICE_BYTES = 50, 8 * 1024 * 1024
# When the next attempt to read a run that could not be read is due, by primary key, on the monotonic clock.
_retry_at: dict[int, float] = {}
# The fingerprints of checkpoints that no attempt can read, by primary key.
_unreadable: dict[int, str] = {}


def copy_some() -> bool:
    """Copy one slice of checkpoints without a current copy. Return whether there may be more to do."""
    for run in copied_runs():
        if run.copies_digest == _digest_of(run) or _retry_at.get(run.pk, 0.0) > time.monotonic():
            continue
        # Lists what another program has added to the run since.
        if import_run(run).read_error is None and _copy_slice(run):
            return True
        _retry_at[run.pk] = time.monotonic() + RETRY_SECONDS
    return False


def _copy_slice(run: Run) -> bool:
    """Copy one slice, or record that no copies are due. Return False if the source cannot be read now."""
    location = run.location
    with suppress(LocationUnreadable, OSError), import_lock(location):
        if not refresh(location):
            return False
        # Another process may have deleted the run.
        with suppress(Run.DoesNotExist):
            run.refresh_from_db(fields=["head", "status", "indexed_fingerprint"])
            if due := _slice(_due_copies(run)):
                return _store_copies(location, due)
            return bool(Run.objects.filter(pk=run.pk).update(copies_digest=_digest_of(run)))
    return False


def _digest_of(run: Run) -> str:
    """Return a digest that changes whenever copies of the run may be missing or outdated."""
    limits = f"{settings.COPIES_MAX_CHECKPOINTS} {settings.COPIES_MAX_BYTES}"
    parts = run.head, run.status, run.indexed_fingerprint, limits
    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()


def _due_copies(run: Run) -> list[int]:
    """Return the primary keys of the checkpoints to copy.

    Those with an outdated copy come first, then, up to the limits, those without one: the ancestors of what
    was forked or annotated, then the newest.
    """
    runs = [run.pk, *called_runs([run.pk])]
    rows = Checkpoint.objects.filter(run__in=runs).exclude(Checkpoint.IS_SCRATCH)
    columns = ("pk", "parent_id", "state", "fingerprint", "stored_copy__fingerprint")
    parents, outdated, missing, sizes = dict[int, int | None](), list[int](), list[int](), list[int]()
    newest_first = rows.order_by("-created_at", "-row").values_list(*columns, body_size("stored_copy__"))
    for pk, parent, state, fingerprint, copied, size in newest_first:
        parents[pk] = parent
        if size:
            sizes.append(size)
        if state == Checkpoint.State.PRESENT and _unreadable.get(pk) != fingerprint:
            if not size:
                missing.append(pk)
            elif copied != fingerprint:
                outdated.append(pk)
    room = settings.COPIES_MAX_CHECKPOINTS - len(sizes) if sum(sizes) < settings.COPIES_MAX_BYTES else 0
    wanted = set(missing)
    starts = first_to_copy(run.location, runs).order_by("-created_at").values_list("pk", flat=True)
    first = [pk for pk in _with_ancestors(starts, parents) if pk in wanted]
    return [*outdated, *list(dict.fromkeys([*first, *missing]))[: max(room, 0)]]


def _with_ancestors(starts: Iterable[int], parents: dict[int, int | None]) -> Iterator[int]:
    """Yield each checkpoint once, followed by its ancestors, the nearest first."""
    seen = set[int]()
    for start in starts:
        at = start
        while at in parents and at not in seen:
            seen.add(at)
            yield at
            at = parents[at] or 0


def _slice(due: Sequence[int]) -> list[Checkpoint]:
    """Return the first checkpoints, as many as are read together, and at least one if there are any."""
    found, size = list[Checkpoint](), 0
    rows = Checkpoint.objects.in_bulk(due[:MAX_SLICE])
    for row in (rows[pk] for pk in due[:MAX_SLICE] if pk in rows):
        size += row.size
        if found and size > MAX_SLICE_BYTES:
            break
        found.append(row)
    return found


def _store_copies(location: Location, due: Sequence[Checkpoint]) -> bool:
    """Read and store the copies of these checkpoints. Return False if none could be read now.

    Requires the import lock. Raises LocationUnreadable.
    """
    by_key = {row.source_key: row for row in due}
    read, is_due_later = list[Packed](), False
    with open_reader(address_of(location)) as reader:
        entries = [Entry(row.source_key, row.fingerprint, row.size) for row in due]
        for result in reader.read_all(entries, 1):
            row = by_key[result.key]
            if isinstance(result, Packed):
                read.append(result)
            elif result.kind == "unavailable":
                is_due_later = True
            else:
                _unreadable[row.pk] = row.fingerprint
    bodies = [
        StoredCopy(
            checkpoint=by_key[one.key],
            data=one.data,
            object_id=one.object_key,
            fingerprint=by_key[one.key].fingerprint,
        )
        for one in bucket.with_objects(read)
    ]
    with transaction.atomic():
        bucket.release(StoredCopy.objects.filter(pk__in=[copy.pk for copy in bodies]))
        bucket.name_objects([copy.object_id for copy in bodies if copy.object_id])
        StoredCopy.objects.bulk_create(
            bodies,
            update_conflicts=True,
            unique_fields=["checkpoint"],
            update_fields=["data", "object", "fingerprint"],
        )
    return bool(bodies) or not is_due_later


def copy_checkpoints(location: Location, rows: Sequence[Checkpoint]) -> None:
    """Store current copies of these checkpoints of an indexed location, in slices.

    Raises LocationUnreadable, BucketAway and OSError.
    """
    current = with_current_copy(rows)
    due = [row.pk for row in rows if row.pk not in current]
    while due:
        with import_lock(location):
            slice_of_due = _slice(due)
            if not slice_of_due or not _store_copies(location, slice_of_due):
                return
        due = due[len(slice_of_due) :]


def with_current_copy(rows: Sequence[Checkpoint]) -> set[int]:
    """The primary keys of those checkpoints that have a copy of what was last listed at the source."""
    found = set[int]()
    for some in in_slices([row.pk for row in rows]):
        copies = StoredCopy.objects.with_body().filter(checkpoint__in=some)
        current = copies.filter(fingerprint=F("checkpoint__fingerprint"))
        found.update(current.values_list("checkpoint_id", flat=True))
    return found


def copied_runs() -> list[Run]:
    """Return the outermost runs whose checkpoints are copied.

    These are runs with a fork of one of their checkpoints, with an annotation of the run, of a branch or of
    a checkpoint, or with a checkpoint in a collection. What is of a called run counts for the outermost one.
    """
    found = dict[int, Run]()
    for location in Location.objects.here().exclude(store_kind=Location.StoreKind.JSON):
        if is_indexed(location):
            for run in location.runs.filter(pk__in=_chosen(location)).select_related("location__project"):
                found[run.outermost.pk] = run.outermost
    return list(found.values())


def first_to_copy(location: Location, runs: list[int]) -> QuerySet[Checkpoint]:
    """Return the forked and annotated checkpoints of these runs, whose ancestors are copied first."""
    written = Annotation.objects.filter(location_uid=location.uid)
    ids = written.exclude(checkpoint_id="").values("checkpoint_id")
    branches = written.exclude(branch="").values("branch")
    is_annotated = Q(checkpoint_id__in=ids) | Q(is_branch_head=True, branch__in=branches)
    is_annotated |= Q(checkpoint_id__in=collected_ids(location)) | is_commented(location)
    return Checkpoint.objects.filter(is_annotated | Q(pk__in=_forked(location)), run__in=runs)


def _chosen(location: Location) -> set[int]:
    """Return the primary keys of the runs that were forked or annotated, called runs included."""
    written = Annotation.objects.filter(location_uid=location.uid)
    keys = written.exclude(run_key="").values("run_key")
    ids = written.exclude(checkpoint_id="").values("checkpoint_id")
    is_annotated = Q(checkpoint_id__in=ids) | Q(checkpoint_id__in=collected_ids(location))
    is_annotated |= is_commented(location)
    discussed = comments_at(location).filter(checkpoint_id="").values("run_key")
    checkpoints = location.checkpoints.filter(is_annotated | Q(pk__in=_forked(location)))
    return {
        *location.runs.filter(Q(key__in=keys) | Q(key__in=discussed)).order_by().values_list("pk", flat=True),
        *checkpoints.order_by().values_list("run_id", flat=True).distinct(),
    }


def _forked(location: Location) -> QuerySet[Job, int | None]:
    """Return the primary keys of the checkpoints that were forked."""
    forks = location.jobs.filter(kind=Job.Kind.FORK).exclude(checkpoint=None)
    return forks.order_by().values_list("checkpoint_id", flat=True)

"""Index the texts of checkpoints in the background, incrementally and in bounded steps."""

import time
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager

from django.db.models import Exists, F, OuterRef

from viewer.data_folder.changes import in_background
from viewer.data_folder.locks import row_lock
from viewer.host.locations.indexing import import_run
from viewer.host.locations.search_entries import (
    Superseded,
    index_notes,
    remove_location,
    remove_run,
    store,
)
from viewer.models import (
    Checkpoint,
    Location,
    Run,
    SearchedCheckpoint,
    SearchedLocation,
    SearchedRun,
    SearchEntry,
)
from viewer.records.bucket import BucketAway
from viewer.records.indexed_runs import called_runs
from viewer.records.locations import is_indexed
from viewer.records.search import marks_of, progress

# Index runs whose bodies are only at the source: the newest checkpoints of the newest runs.


# The newest runs of a location, the newest checkpoints of each, and the runs that it called.
MAX_RUNS, MAX_CHECKPOINTS_OF_RUN, MAX_CALLED = 500, 50, 50
# A longer run is indexed only after somebody has opened it: listing its checkpoints would take long.
MAX_LENGTH = 5_000


def index_threads(location: Location) -> Iterator[None]:
    """Index the newest runs that have changed, newest first. Raises Superseded."""
    searched = dict(SearchedRun.objects.filter(run__location=location).values_list("run", "mark"))
    for run in location.runs.top_level().select_related("location")[:MAX_RUNS]:
        mark = f"{run.head} {run.status}"[:400]
        if searched.get(run.pk) == mark or not _is_listed(run):
            continue
        could_read = True
        for pk in [run.pk, *called_runs([run.pk])[:MAX_CALLED]]:
            due = yield from _due_in_run(pk)
            could_read &= store(location, due) == len(due)
            yield
        if could_read:
            SearchedRun.objects.update_or_create(run=run, defaults={"mark": mark})


def _is_listed(run: Run) -> bool:
    """Whether the checkpoints of a run are rows. Lists them unless there are too many."""
    if run.checkpoint_count > MAX_LENGTH and not run.indexed_fingerprint:
        return False
    # If the source is gone, the stored copies are indexed.
    return import_run(run).read_error is None or bool(run.copies_digest)


def _due_in_run(run: int) -> Generator[None, None, list[Checkpoint]]:
    """The newest checkpoints of a run that are not indexed, oldest first.

    A checkpoint changes with what is written after it. Then its run is indexed again.
    """
    newest = list(
        Checkpoint.objects.filter(run=run)
        .select_related("stored_copy")
        .order_by("-row")[:MAX_CHECKPOINTS_OF_RUN]
    )
    searched = SearchedCheckpoint.objects.filter(pk__in=[row.pk for row in newest])
    known = dict(searched.values_list("pk", "fingerprint"))
    if any(known.get(row.pk, row.fingerprint) != row.fingerprint for row in newest):
        yield from remove_run(run)
        known = {}
    return [row for row in reversed(newest) if row.pk not in known]


# Index what is new, in steps. Each step stores what it has done, so that any process can go on.


# Checkpoints of one step, and their bytes.
MAX_CHECKPOINTS, MAX_BYTES = 50, 8 * 1024 * 1024


def index_some(seconds: float) -> bool:
    """Index for about this many ``seconds``. Returns whether there may be more to do.

    Does nothing if another process is indexing, or while an import is under way: that comes first.
    """
    if Location.objects.here().filter(import_state=Location.ImportState.REQUESTED).exists():
        return False
    ends = time.monotonic() + seconds
    with row_lock("search") as is_ours:
        if not is_ours:
            return False
        return any(time.monotonic() > ends for _step in _steps())


def _steps() -> Iterator[None]:
    yield from _remove_orphans()
    rows = SearchedLocation.objects.filter(secrets_digest=F("location__secrets_digest"))
    searched, marks = dict(rows.values_list("pk", "mark")), marks_of(Location.objects.here())
    behind = [pk for pk, mark in marks.items() if searched.get(pk) != mark]
    for location in Location.objects.filter(pk__in=behind).order_by("pk"):
        try:
            yield from _steps_of(location)
        except (Superseded, Location.DoesNotExist, BucketAway):
            # The next call begins again with what there is then.
            yield


def _steps_of(location: Location) -> Iterator[None]:
    searched, _ = SearchedLocation.objects.get_or_create(
        location=location, defaults={"secrets_digest": location.secrets_digest}
    )
    if searched.secrets_digest != location.secrets_digest:
        yield from _begin_again(location, searched)
    # Listing the checkpoints of a run is a change as well.
    while searched.mark != (mark := marks_of(Location.objects.filter(pk=location.pk)).get(location.pk, "")):
        yield from index_threads(location) if is_indexed(location) else _index_copies(location)
        if not (yield from _remove_gone(location)):
            index_notes(location)
            SearchedLocation.objects.filter(pk=location.pk).update(mark=mark)
            searched.mark = mark
        location.refresh_from_db(fields=["revision"])


def _begin_again(location: Location, searched: SearchedLocation) -> Iterator[None]:
    """Remove what may hold a secret that has become known since."""
    yield from remove_location(location.pk)
    SearchedRun.objects.filter(run__location=location).delete()
    searched.secrets_digest, searched.mark = location.secrets_digest, ""
    searched.save()


def _index_copies(location: Location) -> Iterator[None]:
    """Index the checkpoints that have stored copies, in the order in which they were imported."""
    last = 0
    while due := _due(location, last):
        changed = SearchedCheckpoint.objects.filter(pk__in=[row.pk for row in due]).first()
        if changed is not None:
            yield from remove_run(changed.run_id)
            last = 0
            continue
        store(location, due)
        last = due[-1].pk
        yield


def _due(location: Location, after: int) -> list[Checkpoint]:
    """The first checkpoints after a primary key that are not indexed as they are now."""
    searched = SearchedCheckpoint.objects.filter(pk=OuterRef("pk"), fingerprint=OuterRef("fingerprint"))
    rows = Checkpoint.objects.filter(~Exists(searched), location=location, pk__gt=after)
    due = rows.exclude(state=Checkpoint.State.NO_COPY).select_related("stored_copy").order_by("pk")
    found, size = list[Checkpoint](), 0
    for row in due[:MAX_CHECKPOINTS]:
        size += row.size
        if found and size > MAX_BYTES:
            break
        found.append(row)
    return found


def _remove_gone(location: Location) -> Generator[None, None, bool]:
    """Remove the entries of runs that have lost a checkpoint or its copy, whose others are due again.

    Returns whether there were any.
    """
    exists = Checkpoint.objects.filter(pk=OuterRef("pk")).exclude(state=Checkpoint.State.NO_COPY)
    gone = SearchedCheckpoint.objects.filter(~Exists(exists), location=location).order_by()
    found = False
    while (row := gone.first()) is not None:
        found = True
        yield from remove_run(row.run_id)
        SearchedRun.objects.filter(run=row.run_id).delete()
    return found


class _LastCleanUp:
    """The locations that existed when this process last removed orphans."""

    locations: frozenset[int] | None = None


def _remove_orphans() -> Iterator[None]:
    """Remove the entries of locations that were removed."""
    known = frozenset(Location.objects.values_list("pk", flat=True))
    if known == _LastCleanUp.locations:
        return
    for model in (SearchEntry, SearchedCheckpoint):
        rows = model._default_manager.order_by("location_id").values_list("location_id", flat=True)
        last = 0
        # One search of the index per location.
        while (location := rows.filter(location_id__gt=last).first()) is not None:
            last = location
            if location not in known:
                yield from remove_location(location)
    _LastCleanUp.locations = known


# A thread that indexes whenever something has changed.


# Seconds of one step.
STEP_SECONDS = 0.5
# Seconds between two steps if there is nothing left: many changes are indexed at once.
QUIET_SECONDS = 2.0


def indexing_in_background() -> AbstractContextManager[None]:
    """Index in a thread until the end of the block."""
    return in_background("search-indexing", lambda: index_some(STEP_SECONDS), QUIET_SECONDS)


# Index the texts of checkpoints in the background, incrementally and in bounded steps.


__all__ = ["index_some", "indexing_in_background", "progress"]

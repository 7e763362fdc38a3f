"""Index runs whose bodies are only at the source: the newest checkpoints of the newest runs."""

from collections.abc import Generator, Iterator

from viewer.importing import called_runs, import_run
from viewer.models import Checkpoint, Location, Run, SearchedCheckpoint, SearchedRun
from viewer.search.indexing.storing import remove_run, store

# The newest runs of a location, the newest checkpoints of each, and the runs that it called.
MAX_RUNS, MAX_CHECKPOINTS, MAX_CALLED = 500, 50, 50
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
            due = yield from _due(pk)
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


def _due(run: int) -> Generator[None, None, list[Checkpoint]]:
    """The newest checkpoints of a run that are not indexed, oldest first.

    A checkpoint changes with what is written after it. Then its run is indexed again.
    """
    newest = list(
        Checkpoint.objects.filter(run=run).select_related("stored_copy").order_by("-row")[:MAX_CHECKPOINTS]
    )
    searched = SearchedCheckpoint.objects.filter(pk__in=[row.pk for row in newest])
    known = dict(searched.values_list("pk", "fingerprint"))
    if any(known.get(row.pk, row.fingerprint) != row.fingerprint for row in newest):
        yield from remove_run(run)
        known = {}
    return [row for row in reversed(newest) if row.pk not in known]

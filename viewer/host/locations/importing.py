"""Import a location: list it, read what is new or has changed, and update the lineage of its runs.

A listing has everything, or what is new since a cursor. It is compared with the rows; entries that are new or
have changed are read and stored in slices.
"""

import gc
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from django.db import transaction

from viewer.engines import all_engines
from viewer.host.locations.indexing import update_runs
from viewer.host.locations.sources import (
    ImportCounter,
    ImportCursor,
    ImportSummary,
    import_lock,
    record,
    refresh,
    update_locked,
    with_reader,
)
from viewer.host.reading.location_reader import Listing, LocationReader
from viewer.host.reading.pool import reader_count, start_ahead
from viewer.models import Checkpoint, Location, is_scratch_key
from viewer.records import bucket
from viewer.records.locations import RETRIED_KINDS, Problems, is_indexed
from viewer.records.reconciling import reconcile
from viewer.records.run_rows import KnownRow, known_rows, mark_states
from viewer.stores.protocol import Entry, LocationLimitExceeded, Packed, ReadProblem

# Flush thresholds: entries, and their bytes. They bound the memory of an import.
MAX_SLICE, MAX_SLICE_BYTES = 2_000, 16 * 1024 * 1024
# From this many on, entries are flushed where the next run begins, while other processes continue to read,
# so that a run in one slice is reconciled once.
MIN_SLICE = 400
# Imports of fewer checkpoints take about a second, and show no progress.
MIN_SHOWN = 1_000
# An import stops after this many JSON files that are not checkpoints, if none is one.
MAX_FOREIGN = 500
# With fewer checkpoints, nothing is gained by sparing the garbage collector.
MIN_CHECKPOINTS = 200
# Of a location with more checkpoints, the newest are shown while the others are imported.
NEWEST = 50
# Folders with fewer files are listed completely each time, which takes milliseconds.
MIN_FILES = 500
# The maximum share of time for complete listings, and the maximum seconds between two of them. Only
# complete listings find files that were overwritten in place.
LISTING_SHARE, MAX_LISTING_INTERVAL = 0.02, 300.0


def prepare_import() -> None:
    """Start the reader processes for a large import that may come soon, and load the engines' modules."""
    with suppress(OSError):
        # The import starts them otherwise, and says why none can be started.
        start_ahead(reader_count())
    # Loading them takes several times as long as storing the first rows.
    threading.Thread(target=all_engines, name="load-engines", daemon=True).start()


def import_location(
    location: Location,
    *,
    wait: bool = True,
    counts: ImportCounter | None = None,
    cursor: ImportCursor | None = None,
) -> ImportSummary:
    """Bring the rows of a location up to date. Only new and changed entries are read.

    With the ``cursor`` of the last import, a large folder is rarely listed completely. Updates ``counts``
    meanwhile. Without ``wait``, it does nothing while another process imports the location, or after a
    person cancelled the import.
    """

    def update() -> ImportSummary:
        if not wait and location.import_state == Location.ImportState.CANCELLED:
            return ImportSummary()
        summary = with_reader(location, lambda reader: _update(location, reader, counts, cursor))
        if not summary.is_cancelled:
            location.end_import()
        record(location, summary)
        return summary

    return update_locked(location, update, wait=wait)


def import_added(location: Location) -> ImportSummary:
    """Import a location that was just added, or only the newest checkpoints of a large one.

    The worker imports the others in the background.
    """
    if is_indexed(location):
        return import_location(location)

    def update() -> ImportSummary:
        summary = with_reader(location, lambda reader: _store_newest(location, reader))
        if summary.read_error or location.import_state == Location.ImportState.REQUESTED:
            record(location, summary)
        return summary

    summary = update_locked(location, update, wait=False)
    if summary.is_skipped or summary.read_error or location.import_state == Location.ImportState.REQUESTED:
        return summary
    return import_location(location)


def _update(
    location: Location, reader: LocationReader, counts: ImportCounter | None, cursor: ImportCursor | None
) -> ImportSummary:
    if is_indexed(location):
        return update_runs(location, reader)
    if cursor is not None and not cursor.is_usable(location):
        cursor = None
    # Not evaluated for a complete listing.
    retried = location.problems.filter(kind__in=RETRIED_KINDS).values_list("source_key", flat=True)
    listing = reader.listing(cursor.folders if cursor else None, retried)
    return store_listing(location, reader, listing, counts, cursor)


def _store_newest(location: Location, reader: LocationReader) -> ImportSummary:
    """Import the newest checkpoints if there are more, and request the import of the others."""
    newest = reader.newest(NEWEST + 1)[1:]
    if len(newest) < NEWEST:
        return ImportSummary()
    summary = store_listing(location, reader, Listing(newest, [entry.real_key for entry in newest]))
    location.request_import()
    summary.is_news = True
    return summary


def import_one(location: Location, source: str) -> ImportSummary:
    """Import one checkpoint that was just written: a file's path, ``store.db#id``, or a key of the location.

    Does nothing if there is no such checkpoint.
    """
    if is_indexed(location):
        return import_location(location)
    key = _key_of(location, source)

    def update() -> ImportSummary:
        summary = with_reader(
            location, lambda reader: store_listing(location, reader, reader.listing_of([key]))
        )
        if not summary.read_error:
            record(location, summary)
        return summary

    return update_locked(location, update)


def _key_of(location: Location, source: str) -> str:
    """The key of a source within its location."""
    if location.store_kind != Location.StoreKind.JSON:
        return source.rpartition("#")[2]
    path = Path(source)
    if path.is_absolute():
        for root in (Path(location.path), Path(location.path).resolve()):
            if path.is_relative_to(root):
                return path.relative_to(root).as_posix()
        resolved = path.resolve()
        if resolved.is_relative_to(location.path):
            return resolved.relative_to(location.path).as_posix()
    return source


def redact_stored(location: Location) -> None:
    """Redact the project's secrets in the stored data of a location, as its next import would."""
    with import_lock(location):
        refresh(location)


def store_listing(
    location: Location,
    reader: LocationReader,
    listing: Listing,
    counts: ImportCounter | None = None,
    cursor: ImportCursor | None = None,
) -> ImportSummary:
    """Read and store what of a listing is new or has changed. Updates ``counts`` meanwhile.

    ``cursor`` is the one since which it lists. Requires the import lock. Raises LocationUnreadable.
    """
    began, items, keys = time.monotonic(), listing.items, listing.keys
    if keys is not None:
        items = list(items)
        # The keys of rows are redacted.
        keys = {*keys, *(item.key for item in items)}
    known, problems = known_rows(location, keys), Problems(location, reader.limits, keys)
    compared = _compare(items, known, problems, counts)
    seconds = time.monotonic() - began
    if counts:
        counts.add(due=len(compared.due))
    total = len(compared.entries) if listing.is_complete else 0
    with only_new_garbage(len(compared.due)):
        summary = _read_and_store(location, reader, compared.due, known, problems, total, counts)
    pruned = compared.missing(known) if listing.is_complete else []
    # Present again with unchanged bytes.
    restored = [
        entry.key
        for entry in compared.entries
        if (row := known.get(entry.key)) is not None
        and row.state != Checkpoint.State.PRESENT
        and row.fingerprint == entry.fingerprint
    ]
    for problem in compared.problems:
        problems.add(problem)
    summary.unavailable += _unavailable(compared.problems)
    with transaction.atomic():
        mark_states(location, pruned, Checkpoint.State.PRUNED)
        mark_states(location, restored, Checkpoint.State.PRESENT)
        summary.is_news |= problems.save()
    summary.pruned, summary.problems = len(pruned), len(problems)
    summary.is_news |= bool(pruned or restored or summary.added or summary.changed)
    if compared.hides_nothing and not summary.is_cancelled:
        if cursor and not listing.is_complete:
            summary.cursor = cursor
        elif listing.cursor and len(listing.cursor) >= MIN_FILES:
            # From there, the next import lists the folder.
            expires_at = time.monotonic() + min(seconds / LISTING_SHARE, MAX_LISTING_INTERVAL)
            summary.cursor = ImportCursor(listing.cursor, location.import_context, expires_at)
    return summary


@dataclass(slots=True)
class _Compared:
    """What a location lists: all entries, the due ones, and the problems."""

    entries: list[Entry] = field(default_factory=list)
    due: list[Entry] = field(default_factory=list)
    problems: list[ReadProblem] = field(default_factory=list)

    @property
    def hides_nothing(self) -> bool:
        """Whether no problem hides entries."""
        return all(problem.hides == "nothing" for problem in self.problems)

    def missing(self, known: Mapping[str, KnownRow]) -> list[str]:
        """The keys of the rows that a complete listing lacks, except drafts, and that no problem hides."""
        listed = {entry.key for entry in self.entries}
        gone = (Checkpoint.State.PRUNED, Checkpoint.State.NO_COPY)
        return [
            key
            for key, row in known.items()
            if key not in listed
            and row.state not in gone
            and not is_scratch_key(key)
            and not any(problem.may_hide(key) for problem in self.problems)
        ]


def _compare(
    listed: Iterable[Entry | ReadProblem],
    known: dict[str, KnownRow],
    problems: Problems,
    counts: ImportCounter | None = None,
) -> _Compared:
    """Compare a listing with the rows. An entry is due if it differs from its row and its known problem."""
    compared = _Compared()
    for item in listed:
        if isinstance(item, ReadProblem):
            compared.problems.append(item)
            continue
        compared.entries.append(item)
        if counts:
            counts.add(found=1)
        row = known.get(item.key)
        is_stored = row is not None and row.fingerprint == item.fingerprint
        if not is_stored and not problems.is_known(item):
            compared.due.append(item)
    return compared


def _unavailable(problems: Iterable[ReadProblem]) -> list[str]:
    return [problem.key for problem in problems if problem.kind == "unavailable"]


def _read_and_store(
    location: Location,
    reader: LocationReader,
    due: list[Entry],
    known: dict[str, KnownRow],
    problems: Problems,
    total: int,
    counts: ImportCounter | None,
) -> ImportSummary:
    """Read and store the due entries in slices, unless a person cancels the import.

    ``total`` is the number of entries of a complete listing, of which a long import shows its progress.
    """
    summary, done = ImportSummary(read=len(due)), total - len(due)
    is_requested = location.import_state == Location.ImportState.REQUESTED
    is_shown = total > 0 and (len(due) >= MIN_SHOWN or is_requested)
    if is_shown:
        # A request that was cancelled in the meantime stays cancelled.
        if not is_requested:
            location.request_import()
        location.record_progress(done, total)
    # Names begin with the time, so the checkpoints of a run are consecutive.
    due = sorted(due, key=lambda entry: entry.key.rpartition("/")[2])
    for results in slices(_checked(reader.read_all(due, reader_count()), bool(known), counts)):
        read = bucket.with_objects([result for result in results if isinstance(result, Packed)])
        failed = [result for result in results if isinstance(result, ReadProblem)]
        for problem in failed:
            problems.add(problem)
        summary.unavailable += _unavailable(failed)
        with transaction.atomic():
            if read:
                reconcile(location, read)
            for state in (Checkpoint.State.WRITING, Checkpoint.State.BROKEN):
                keys = [
                    one.key
                    for one in failed
                    if one.key in known
                    and known[one.key].state != Checkpoint.State.NO_COPY
                    and problems.state_after(one) == state
                ]
                summary.changed += mark_states(location, keys, state)
        changed = sum(result.key in known for result in read)
        summary.changed += changed
        summary.added += len(read) - changed
        done += len(results)
        if is_shown and not location.record_progress(done, total):
            summary.is_cancelled = True
            break
    return summary


def _checked(
    results: Iterator[Packed | ReadProblem], is_known: bool, counts: ImportCounter | None
) -> Iterator[Packed | ReadProblem]:
    """The results. Raises LocationLimitExceeded if nothing shows that checkpoints are here."""
    foreign = 0
    for result in results:
        if counts:
            counts.add(read=1)
        if isinstance(result, Packed):
            is_known = True
        foreign += isinstance(result, ReadProblem) and result.kind == "foreign"
        if foreign >= MAX_FOREIGN and not is_known:
            raise LocationLimitExceeded("store.no_checkpoints", count=f"{MAX_FOREIGN:,}")
        yield result


def slices(results: Iterator[Packed | ReadProblem]) -> Iterator[list[Packed | ReadProblem]]:
    """The results that are stored together."""
    current: list[Packed | ReadProblem] = []
    size, kickoffs, ids = 0, set[str](), set[str]()
    for result in results:
        is_full = len(current) >= MAX_SLICE or size >= MAX_SLICE_BYTES
        if is_full or (len(current) >= MIN_SLICE and _begins_run(result, kickoffs, ids)):
            yield current
            current, size = [], 0
            kickoffs.clear()
        current.append(result)
        if isinstance(result, Packed):
            size += len(result.data)
            kickoffs.add(result.snapshot.run_key)
            ids.add(result.snapshot.checkpoint_id)
    if current:
        yield current


def _begins_run(result: Packed | ReadProblem, kickoffs: set[str], ids: set[str]) -> bool:
    """Whether a checkpoint has neither a parent among these ids nor one of these kickoffs.

    Old engine versions record no parents, so only the kickoff shows which checkpoints belong together.
    """
    if not isinstance(result, Packed):
        return False
    return result.snapshot.parent_id not in ids and result.snapshot.run_key not in kickoffs - {""}


@contextmanager
def only_new_garbage(checkpoints: int) -> Iterator[None]:
    """Freeze the objects that exist, while an import of this many checkpoints creates thousands of others.

    Without this, a first import spends a third of its time traversing all objects of the process. Does
    nothing for a few checkpoints: frozen objects count as old afterwards, and old garbage is rarely
    collected, so frequent imports would leak memory.
    """
    if checkpoints < MIN_CHECKPOINTS:
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.collect()

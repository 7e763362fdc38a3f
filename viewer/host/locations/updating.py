"""Compares a location with its rows, reads new and changed entries, and stores them in slices."""

import gc
import os
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from viewer.engines import all_engines
from viewer.host.locations.addresses import read_limits
from viewer.host.reading.location_reader import LocationReader
from viewer.host.reading.pool import MAX_READERS, start_ahead
from viewer.host_requests import ImportCounts, Report
from viewer.messages.message import UserMessage
from viewer.models import Checkpoint, Location, Problem
from viewer.records.checkpoint_rows import KnownRow, in_slices, known_rows, mark_states
from viewer.records.reconciling import reconcile
from viewer.stores.errors import LocationLimitExceeded
from viewer.stores.json_folder import KnownFolders
from viewer.stores.packing import Packed
from viewer.stores.protocol import Entry, ReadProblem

# The progress of a long import, stored with its location, so that a person can cancel it.


# Imports of fewer checkpoints take about a second, and show no progress.
MIN_SHOWN = 1_000


# Seconds between two reports of the counts.
REPORT_SECONDS = 0.2


class ImportCounter:
    """Counts what an import has found and read, and reports that from time to time."""

    def __init__(self, report: Report) -> None:
        self._report, self._reported_at = report, 0.0
        self._counts = ImportCounts()

    def add(self, *, found: int = 0, due: int = 0, read: int = 0) -> None:
        """Add to the counts."""
        counts = self._counts
        self._counts = ImportCounts(counts.found + found, counts.due + due, counts.read + read)
        if due or time.monotonic() - self._reported_at >= REPORT_SECONDS:
            self._reported_at = time.monotonic()
            self._report(self._counts)


class ImportProgress:
    """The progress of an import. ``done`` includes entries that were already stored."""

    def __init__(self, location: Location, total: int, due: int) -> None:
        self._location, self.done = location, total - due
        is_requested = location.import_state == Location.ImportState.REQUESTED
        self._is_shown = due >= MIN_SHOWN or is_requested
        if self._is_shown:
            # A request that was cancelled in the meantime stays cancelled.
            if not is_requested:
                location.request_import()
            Location.objects.filter(pk=location.pk).update(import_done=self.done, import_total=total)

    def add(self, count: int) -> bool:
        """Record that this many more are stored. Return False if a person cancelled the import."""
        self.done += count
        if not self._is_shown:
            return True
        rows = Location.objects.filter(pk=self._location.pk)
        # Open pages refresh.
        rows.update(import_done=self.done, revision=F("revision") + 1)
        return rows.filter(import_state=Location.ImportState.REQUESTED).exists()


# Stops the garbage collector from traversing the objects of an import again and again.


# With fewer checkpoints, nothing is gained.
MIN_CHECKPOINTS = 200


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


# The number of reader processes of an import, and what starts before it.


def prepare_import() -> None:
    """Start the reader processes for a large import that may come soon, and load the engines' modules."""
    start_ahead(reader_count())
    # Loading them takes several times as long as storing the first rows.
    threading.Thread(target=all_engines, name="load-engines", daemon=True).start()


def reader_count() -> int:
    """The number of reader processes: one per core. This process writes to the database meanwhile."""
    return min(MAX_READERS, len(os.sched_getaffinity(0)))


# The problems of a location: files and rows that cannot be imported, stored with their reasons.


@dataclass(slots=True)
class _Stored:
    pk: int
    reason: UserMessage
    kind: str
    fingerprint: str
    first_seen_at: datetime


_COLUMNS = ("reason", "kind", "fingerprint", "first_seen_at")
# Kinds that are read again even if the bytes are unchanged.
_RETRIED_KINDS = (Problem.Kind.WRITING, Problem.Kind.UNAVAILABLE)


def _stored_fingerprint(fingerprint: str, kind: str) -> str:
    """The stored fingerprint of a problem. Includes the limits, since larger ones may allow the entry."""
    return f"{fingerprint} {read_limits().mark}" if kind == Problem.Kind.REFUSED else fingerprint


class Problems:
    """The problems of a location, or of some of its keys, before and after an import."""

    def __init__(self, location: Location, keys: Collection[str] | None = None) -> None:
        self._location = location
        rows = Problem.objects.filter(location=location)
        if keys is not None:
            rows = rows.filter(source_key__in=keys)
        self._before = {
            row.source_key: _Stored(row.pk, row.reason, row.kind, row.fingerprint, row.first_seen_at)
            for row in rows
        }
        self._after: dict[str, _Stored] = {}
        self._now = timezone.now()

    def __len__(self) -> int:
        return len(self._after)

    def is_known(self, entry: Entry) -> bool:
        """Whether these bytes are known not to be a checkpoint, so that they are not read again."""
        known = self._before.get(entry.key)
        if known is None or known.kind in _RETRIED_KINDS:
            return False
        if known.fingerprint != _stored_fingerprint(entry.fingerprint, known.kind):
            return False
        self._after[entry.key] = known
        return True

    def add(self, problem: ReadProblem) -> None:
        """Add a problem. An entry that does not parse counts as being written until it stays unchanged."""
        before = self._before.get(problem.key)
        mark = _stored_fingerprint(problem.fingerprint, problem.kind)
        is_same = before is not None and before.fingerprint == mark
        first_seen_at = before.first_seen_at if before and is_same else self._now
        kind, reason = problem.kind, problem.reason
        if kind == "writing" and self._is_unchanged(problem, first_seen_at):
            kind = "broken"
        elif kind == "writing":
            reason = UserMessage("import.being_written", {"why": reason})
        self._after[problem.key] = _Stored(before.pk if before else 0, reason, kind, mark, first_seen_at)

    def _is_unchanged(self, problem: ReadProblem, first_seen_at: datetime) -> bool:
        """Whether the entry has been unchanged for CHECKPOINT_SETTLED_SECONDS."""
        now = self._now.timestamp()
        since = first_seen_at.timestamp()
        if problem.changed_at is not None and problem.changed_at <= now:
            since = min(since, problem.changed_at)
        return now - since >= settings.CHECKPOINT_UNCHANGED_SECONDS

    def state_after(self, problem: ReadProblem) -> Checkpoint.State | None:
        """The new state of a present checkpoint that has this problem now; None if unchanged."""
        kind = self._after[problem.key].kind
        if kind == Problem.Kind.UNAVAILABLE:
            return None
        return Checkpoint.State.WRITING if kind == Problem.Kind.WRITING else Checkpoint.State.BROKEN

    def retried_keys(self) -> set[str]:
        """The keys of problems whose entries the next import reads again."""
        return {key for key, known in self._after.items() if known.kind in _RETRIED_KINDS}

    def save(self) -> bool:
        """Store the changes. Return whether a page has to be refreshed."""
        gone = [known.pk for key, known in self._before.items() if key not in self._after]
        for some in in_slices(gone):
            Problem.objects.filter(pk__in=some).delete()
        is_news = bool(gone)
        changed = [(key, known) for key, known in self._after.items() if self._before.get(key) != known]
        for key, known in changed:
            before = self._before.get(key)
            is_news |= before is None or (before.reason, before.kind) != (known.reason, known.kind)
        rows = [
            Problem(
                location=self._location,
                source_key=key,
                reason=known.reason,
                kind=known.kind,
                fingerprint=known.fingerprint,
                first_seen_at=known.first_seen_at,
            )
            for key, known in changed
        ]
        # A location may have hundreds of thousands of problems.
        Problem.objects.bulk_create(
            rows,
            batch_size=500,
            update_conflicts=True,
            unique_fields=["location", "source_key"],
            update_fields=_COLUMNS,
        )
        return is_news


# Compares a location with its rows, reads new and changed entries, and stores them in slices.


# Flush thresholds: entries, and their bytes. They bound the memory of an import.
MAX_SLICE, MAX_SLICE_BYTES = 2_000, 16 * 1024 * 1024
# From this many on, entries are flushed where the next run begins, while other processes continue to read,
# so that a run in one slice is reconciled once.
MIN_SLICE = 400
# A location of which this many JSON files are no checkpoints, and none is one, is not where checkpoints are.
MAX_FOREIGN = 500


@dataclass(slots=True)
class ImportSummary:
    """The result of one import.

    ``read`` counts the entries that were opened. ``read_error`` says why the location could not be read.
    ``unavailable`` are the keys of entries that could not be read now. The next import tries again.
    """

    read: int = 0
    added: int = 0
    changed: int = 0
    pruned: int = 0
    problems: int = 0
    read_error: UserMessage | None = None
    unavailable: list[str] = field(default_factory=list)
    # The identity of the folder or file that has replaced the location.
    replaced_by: str = ""
    # The mark of a location that exceeds the limits.
    refused_fingerprint: str = ""
    # Whether a page has to be refreshed.
    is_news: bool = False
    # Whether a person cancelled it before its end.
    is_cancelled: bool = False
    # Whether another process was importing the location, so that nothing was done.
    is_skipped: bool = False
    # The real keys of entries that the next import reads again; None if a complete listing is needed.
    read_again: list[str] | None = None
    # Seconds to list the location and to compare it with its rows.
    listing_seconds: float = 0.0


@dataclass(slots=True)
class _Listing:
    """The listing of a location: all entries, the due ones, and the problems."""

    entries: list[Entry] = field(default_factory=list)
    due: list[Entry] = field(default_factory=list)
    problems: list[ReadProblem] = field(default_factory=list)


def update_all(
    location: Location,
    reader: LocationReader,
    seen: KnownFolders | None = None,
    counts: ImportCounter | None = None,
) -> ImportSummary:
    """Update all rows of an open location. Records the contents of its folders in ``seen``.

    Updates ``counts`` meanwhile.

    Requires the import lock. Raises LocationUnreadable.
    """
    began, known, problems = time.monotonic(), known_rows(location), Problems(location)
    listing = _compare(reader.entries(seen), known, problems, counts)
    listing_seconds = time.monotonic() - began
    progress = ImportProgress(location, len(listing.entries), len(listing.due))
    if counts:
        counts.add(due=len(listing.due))
    with only_new_garbage(len(listing.due)):
        summary = _read_and_store(location, reader, listing.due, known, problems, progress, counts)
    listed = {entry.key for entry in listing.entries}
    pruned = [
        key
        for key, row in known.items()
        if key not in listed
        and row.state not in (Checkpoint.State.PRUNED, Checkpoint.State.NO_COPY)
        and not any(problem.may_hide(key) for problem in listing.problems)
    ]
    _store_states(location, listing, known, problems, pruned, summary)
    summary.listing_seconds = listing_seconds
    return summary


def update_newest(location: Location, reader: LocationReader, limit: int) -> ImportSummary:
    """Import the newest ``limit`` checkpoints if there are more, and request the import of the others.

    Requires the import lock. Raises LocationUnreadable.
    """
    newest = reader.newest(limit + 1)
    if len(newest) <= limit:
        return ImportSummary()
    known, problems = known_rows(location), Problems(location, set())
    listing = _compare(newest[1:], known, problems)
    summary = _read_and_store(location, reader, listing.due, known, problems)
    location.request_import()
    summary.is_news = True
    return summary


def update_some(location: Location, reader: LocationReader, keys: Sequence[str]) -> ImportSummary:
    """Update the rows of some keys of the store. Keys without an entry are left out.

    Requires the import lock. Raises LocationUnreadable.
    """
    found = [item for key in keys if (item := reader.entry(key))]
    # The keys of rows are redacted.
    stored_keys = {*keys, *(item.key for item in found)}
    known, problems = known_rows(location, stored_keys), Problems(location, stored_keys)
    listing = _compare(found, known, problems)
    summary = _read_and_store(location, reader, listing.due, known, problems)
    _store_states(location, listing, known, problems, [], summary)
    return summary


def _store_states(
    location: Location,
    listing: _Listing,
    known: dict[str, KnownRow],
    problems: Problems,
    pruned: Sequence[str],
    summary: ImportSummary,
) -> None:
    """Store which checkpoints were pruned or restored, and the problems of the listing. Count them."""
    restored = [entry.key for entry in listing.entries if _is_restored(known.get(entry.key), entry)]
    for problem in listing.problems:
        problems.add(problem)
    summary.unavailable += _unavailable(listing.problems)
    with transaction.atomic():
        mark_states(location, pruned, Checkpoint.State.PRUNED)
        mark_states(location, restored, Checkpoint.State.PRESENT)
        summary.is_news |= problems.save()
    summary.pruned, summary.problems = len(pruned), len(problems)
    summary.is_news |= bool(pruned or restored or summary.added or summary.changed)
    summary.read_again = _read_again(listing, problems)


def _read_again(listing: _Listing, problems: Problems) -> list[str] | None:
    """The real keys of entries that are still being written, or could not be read this time.

    None if a problem hides entries, or has no entry.
    """
    keys = problems.retried_keys()
    found = [entry.real_key for entry in listing.entries if entry.key in keys]
    is_hidden = any(problem.hides != "nothing" for problem in listing.problems)
    return None if is_hidden or len(found) < len(keys) else found


def _compare(
    listed: Iterable[Entry | ReadProblem],
    known: dict[str, KnownRow],
    problems: Problems,
    counts: ImportCounter | None = None,
) -> _Listing:
    """The listing. An entry is due if it differs from its row and from its known problem."""
    listing = _Listing()
    for item in listed:
        if isinstance(item, ReadProblem):
            listing.problems.append(item)
            continue
        listing.entries.append(item)
        if counts:
            counts.add(found=1)
        row = known.get(item.key)
        is_stored = row is not None and row.fingerprint == item.fingerprint
        if not is_stored and not problems.is_known(item):
            listing.due.append(item)
    return listing


def _is_restored(row: KnownRow | None, entry: Entry) -> bool:
    """Whether a checkpoint that was missing is present again with unchanged bytes."""
    return row is not None and row.state != Checkpoint.State.PRESENT and row.fingerprint == entry.fingerprint


def _unavailable(problems: Iterable[ReadProblem]) -> list[str]:
    return [problem.key for problem in problems if problem.kind == "unavailable"]


def _read_and_store(
    location: Location,
    reader: LocationReader,
    due: list[Entry],
    known: dict[str, KnownRow],
    problems: Problems,
    progress: ImportProgress | None = None,
    counts: ImportCounter | None = None,
) -> ImportSummary:
    """Read and store the due entries in slices, unless a person cancels the import."""
    summary = ImportSummary(read=len(due))
    # Names begin with the time, so the checkpoints of a run are consecutive.
    due = sorted(due, key=lambda entry: entry.key.rpartition("/")[2])
    for results in slices(_checked(reader.read_all(due, reader_count()), bool(known), counts)):
        read = [result for result in results if isinstance(result, Packed)]
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
        if progress and not progress.add(len(results)):
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

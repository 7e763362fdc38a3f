"""What an import reports: its progress, the problems that it finds, and its result."""

import time
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F
from django.utils import timezone

from viewer.host_requests import ImportCounts, Report
from viewer.messages.message import UserMessage
from viewer.models import Checkpoint, Location, Problem
from viewer.models.columns import in_slices
from viewer.stores.folder_cursor import FolderCursor
from viewer.stores.protocol import Entry, ReadLimits, ReadProblem

# Imports of fewer checkpoints take about a second, and show no progress.
MIN_SHOWN = 1_000
# Seconds between two reports of the counts.
REPORT_SECONDS = 0.2
# How often imports without changes are recorded. A location that another program writes to, or that reports
# no changes, is imported every second.
RECORDED_EVERY = timedelta(seconds=20)
_PROBLEM_COLUMNS = ("reason", "kind", "fingerprint", "first_seen_at")
# Kinds that are read again even if the bytes are unchanged.
RETRIED_KINDS = (Problem.Kind.WRITING, Problem.Kind.UNAVAILABLE)


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
    # From where the next import of a large folder lists it; None if that has to list everything.
    cursor: "ImportCursor | None" = None


@dataclass(frozen=True, slots=True)
class ImportCursor:
    """Where the next import of a folder continues. Kept in memory, not in a row: it has 8 bytes per file.

    ``context`` has the other values on which the rows depend. ``expires_at`` is on the monotonic clock.
    """

    folders: FolderCursor
    context: tuple[str, ...]
    expires_at: float

    def is_usable(self, location: Location) -> bool:
        """Whether what is new since then is all that the next import needs."""
        is_current = time.monotonic() < self.expires_at and self.context == context_of(location)
        return is_current and not location.import_state


def context_of(location: Location) -> tuple[str, ...]:
    """The values with which a cursor was made."""
    return location.identity, location.engine, location.secrets_digest


def record(location: Location, summary: ImportSummary) -> None:
    """Record an import on its location if it changed something or the last record is old."""
    now = timezone.now()
    if (location.read_error, location.replaced_by) != (summary.read_error, summary.replaced_by):
        summary.is_news = True
    is_due = location.imported_at is None or now - location.imported_at > RECORDED_EVERY
    # The time is that of the last import that read it.
    is_due &= not summary.read_error
    is_due |= location.refused_fingerprint != summary.refused_fingerprint
    if not (summary.is_news or is_due):
        return
    location.replaced_by, location.refused_fingerprint = summary.replaced_by, summary.refused_fingerprint
    location.record_import(now, summary.read_error, summary.is_news)


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


@dataclass(slots=True)
class _Stored:
    pk: int
    reason: UserMessage
    kind: str
    fingerprint: str
    first_seen_at: datetime


class Problems:
    """The problems of a location, or of some of its keys, before and after an import."""

    def __init__(self, location: Location, limits: ReadLimits, keys: Collection[str] | None = None) -> None:
        self._location, self._limits = location, limits
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
        if known is None or known.kind in RETRIED_KINDS:
            return False
        if known.fingerprint != self._stored_fingerprint(entry.fingerprint, known.kind):
            return False
        self._after[entry.key] = known
        return True

    def add(self, problem: ReadProblem) -> None:
        """Add a problem. An entry that does not parse counts as being written until it stays unchanged."""
        before = self._before.get(problem.key)
        mark = self._stored_fingerprint(problem.fingerprint, problem.kind)
        is_same = before is not None and before.fingerprint == mark
        first_seen_at = before.first_seen_at if before and is_same else self._now
        kind, reason = problem.kind, problem.reason
        if kind == "writing" and self._is_unchanged(problem, first_seen_at):
            kind = "broken"
        elif kind == "writing":
            reason = UserMessage("import.being_written", {"why": reason})
        self._after[problem.key] = _Stored(before.pk if before else 0, reason, kind, mark, first_seen_at)

    def _stored_fingerprint(self, fingerprint: str, kind: str) -> str:
        """The stored fingerprint of a problem. Includes the limits, since larger ones may allow the entry."""
        return f"{fingerprint} {self._limits.mark}" if kind == Problem.Kind.REFUSED else fingerprint

    def _is_unchanged(self, problem: ReadProblem, first_seen_at: datetime) -> bool:
        """Whether the entry has been unchanged for CHECKPOINT_UNCHANGED_SECONDS."""
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
            update_fields=_PROBLEM_COLUMNS,
        )
        return is_news

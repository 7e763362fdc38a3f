"""The source of a location: where readers find it, how an import opens it, and its checkpoints one by one."""

import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import F
from django.utils import timezone

from viewer.data_folder.locks import row_lock
from viewer.engines import engine_name, store_format_named
from viewer.host.locations.project_secrets import redact_known_secrets, secrets_for
from viewer.host.permitted import refusal_of
from viewer.host.reading.location_reader import LocationAddress, LocationReader, open_reader
from viewer.host_requests import Body, ImportCounts, NotReadable, Report
from viewer.messages.message import UserFacingError, UserMessage
from viewer.models import Checkpoint, Host, Location, PoolMember, Problem
from viewer.models.columns import in_slices
from viewer.records.bucket import BucketAway
from viewer.records.hosts import is_here
from viewer.stores.addresses import (
    Identity,
    SaverAddress,
    ServerAddress,
    libpq_environment,
    name_in,
    path_of_database,
)
from viewer.stores.json_folder import FolderCursor
from viewer.stores.protocol import (
    Entry,
    LocationLimitExceeded,
    LocationReplaced,
    LocationUnreadable,
    Packed,
    ReadLimits,
    ReadProblem,
)

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


def read_limits() -> ReadLimits:
    """The limits for one checkpoint, from the settings."""
    return ReadLimits(
        max_bytes=settings.CHECKPOINT_MAX_BYTES,
        max_depth=settings.CHECKPOINT_MAX_DEPTH,
        max_seconds=settings.CHECKPOINT_MAX_SECONDS,
        max_memory=settings.CHECKPOINT_MAX_MEMORY,
        max_names=settings.LOCATION_MAX_FILES,
        statement_seconds=settings.POSTGRESQL_STATEMENT_SECONDS,
    )


# A saver is read in the environment of a project, so ``viewer.host.jobs.savers`` registers this function.
_saver_address: list[Callable[[Location], SaverAddress]] = []


def register_savers(saver_address: Callable[[Location], SaverAddress]) -> None:
    """Use this function, which raises LocationUnreadable, to find or start the process that reads a saver."""
    _saver_address[:] = [saver_address]


def address_of(location: Location) -> LocationAddress:
    """The address of a location, pinned to the identity that was added, without links below the roots.

    Raises LocationUnreadable for a database that is not in the settings, a saver that may not be opened, and
    a path that this machine must not open.
    """
    refuse_outside(location)
    identity = Identity.parse(identity_here(location))
    server = saver = None
    if location.store_kind == Location.StoreKind.SAVER:
        # It runs in the project as it is now, whose secrets are redacted.
        saver = _saver_address[0](location)
    secrets = secrets_for(location.project)
    if location.store_kind == Location.StoreKind.POSTGRESQL:
        server = server_address(name_in(location.path))
    return LocationAddress(
        Path(location.path),
        read_limits(),
        settings.CHECKPOINT_ROOTS,
        identity,
        secrets,
        location.engine,
        server,
        settings.DATA_DIR,
        location.store_kind,
        saver,
    )


def refuse_outside(location: Location) -> None:
    """Raise LocationUnreadable if this machine must not open a path that the location's rows name."""
    path = location.path if location.is_local else None
    environment_file = location.project.environment_file if location.project else ""
    if refusal := refusal_of(path, environment_file or None):
        raise LocationUnreadable(refusal)


def identity_here(location: Location) -> str:
    """The recorded identity on this machine. That of a pool's location differs from that on its host."""
    if location.pool_id is None or is_here(location.host_id):
        return location.identity
    mine = PoolMember.objects.filter(location=location, host__in=Host.objects.here())
    return mine.values_list("identity", flat=True).first() or location.identity


def server_address(name: str) -> ServerAddress:
    """The connection of the database with this name in the settings. Raises LocationUnreadable."""
    connection = settings.POSTGRESQL_LOCATIONS.get(name)
    if connection is None:
        raise LocationUnreadable("postgresql.not_configured")
    return ServerAddress(name, connection, libpq_environment())


class NotConfigured(UserFacingError):
    """The settings have no connection to a location's database."""


def server_variables(location: Location) -> dict[str, Any]:
    """The variables with which a run connects to a database. May hold a password. Raises NotConfigured."""
    try:
        address = server_address(name_in(location.path))
    except LocationUnreadable as error:
        raise NotConfigured(error.message) from None
    return {"conninfo": address.conninfo, "environment": dict(address.environment)}


def address_at(path: Path) -> LocationAddress:
    """The address of whatever is at a path now."""
    return LocationAddress(path, read_limits(), settings.CHECKPOINT_ROOTS, own=settings.DATA_DIR)


def address_of_database(name: str) -> LocationAddress:
    """The address of the database with this name in the settings. Raises LocationUnreadable."""
    return LocationAddress(Path(path_of_database(name)), read_limits(), server=server_address(name))


def import_lock(location: Location, *, wait: bool = True) -> AbstractContextManager[bool]:
    """Hold the import lock of this location. Raises OSError if the lock file cannot be opened.

    Without ``wait``, yields False if another process holds the lock.
    """
    return row_lock(f"imports/{location.uid}", wait=wait)


def refresh(location: Location) -> bool:
    """Reload the location and redact newly known secrets. Return False if the location was removed.

    Raises LocationUnreadable if stored copies cannot be redacted now, or if it must not be opened here.
    """
    if not location.refresh_if_exists():
        return False
    location.refresh_from_db(fields=["project", "secrets_digest", "price_digest", "listed_fingerprint"])
    refuse_outside(location)
    try:
        if location.pool_id is None or is_here(location.host_id):
            # The others of its pool have the same secrets, and their own keys for the digest.
            redact_known_secrets(location)
    except BucketAway as away:
        raise LocationUnreadable(away.message) from None
    return True


def with_reader(location: Location, update: Callable[[LocationReader], ImportSummary]) -> ImportSummary:
    """Return what ``update`` returns for the open location, or a summary with its read error."""
    mark = ""
    try:
        with open_reader(address_of(location)) as reader:
            if not location.identity and reader.identity is not None:
                location.pin(str(reader.identity))
            mark = reader.mark
            if location.refused_fingerprint == mark:
                # The same contents already exceeded the same limits.
                return ImportSummary(read_error=location.read_error, refused_fingerprint=mark)
            return update(reader)
    except LocationReplaced as error:
        # What another host of its pool has there replaces nothing.
        is_own = is_here(location.host_id)
        return ImportSummary(read_error=error.message, replaced_by=error.identity if is_own else "")
    except LocationLimitExceeded as error:
        return ImportSummary(read_error=error.message, refused_fingerprint=mark)
    except LocationUnreadable as error:
        return ImportSummary(read_error=error.message)
    except OSError as error:
        return ImportSummary(read_error=system_error(error))


def system_error(error: OSError) -> UserMessage:
    """The read error of an import that the operating system has stopped."""
    return UserMessage("import.read_failed", {"why": str(error.strerror or error)})


def read_body(checkpoint: Checkpoint) -> bytes:
    """The compressed, redacted checkpoint, read by a reader process. Raises NotReadable."""
    entry = Entry(checkpoint.source_key, checkpoint.fingerprint, checkpoint.size)
    try:
        with open_reader(address_of(checkpoint.location)) as reader:
            result = next(reader.read_all([entry], 1), None)
    except LocationUnreadable as error:
        raise NotReadable(error.message) from None
    except OSError as error:
        raise NotReadable(system_error(error)) from None
    if isinstance(result, Packed):
        return result.data
    raise NotReadable(result.reason if result else UserMessage("store.row_vanished"))


def reveal(checkpoint: Checkpoint, pointer: str) -> str:
    """The hidden text at this JSON Pointer of a checkpoint, read at its source. Raises NotReadable."""
    try:
        with open_reader(address_of(checkpoint.location)) as reader:
            found = reader.entry(checkpoint.source_key)
            if isinstance(found, Entry):
                return reader.revealed(found, pointer)
    except LocationUnreadable as error:
        raise NotReadable(error.message) from None
    except OSError as error:
        raise NotReadable(system_error(error)) from None
    raise NotReadable(found.reason if found else UserMessage("store.row_vanished"))


def read_bodies(location: Location, checkpoints: list[int]) -> list[Body]:
    """The checkpoints with these primary keys, read in one batch, without those that cannot be read."""
    found_rows = location.checkpoints.in_bulk(checkpoints)
    rows = {row.source_key: row for key in checkpoints if (row := found_rows.get(key)) is not None}
    entries = [Entry(row.source_key, row.fingerprint, row.size) for row in rows.values()]
    found = []
    with suppress(LocationUnreadable, OSError), open_reader(address_of(location)) as reader:
        for result in reader.read_all(entries, 1):
            if isinstance(result, Packed) and result.key in rows:
                found.append(Body(rows.pop(result.key).pk, result.data))
    return found


@dataclass(frozen=True, slots=True)
class UnredactedSource:
    """The ids with which an engine finds a checkpoint. ``branch`` is empty if only its contents record it."""

    checkpoint_id: str
    source: str
    branch: str = ""


def unredacted_source(checkpoint: Checkpoint) -> UnredactedSource:
    """The real ids and source of a checkpoint; those of its row if it can no longer be found."""
    location = checkpoint.location
    try:
        with open_reader(address_of(location)) as store:
            found = store.entry(checkpoint.source_key)
    except (LocationUnreadable, OSError):
        found = None
    if not isinstance(found, Entry):
        return UnredactedSource(checkpoint.checkpoint_id, checkpoint.source)
    key, store_format = found.real_key, store_format_named(engine_name(location))
    if location.store_kind != Location.StoreKind.JSON:
        return UnredactedSource(
            store_format.ids_in_row(key, None, "").checkpoint_id, f"{location.path}#{key}"
        )
    ids = store_format.ids_in_path(key)
    return UnredactedSource(ids.checkpoint_id, str(Path(location.path) / key), ids.branch)

"""The source of a location: where readers find it, how an import opens it, and its checkpoints one by one."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from viewer.data_folder.locks import row_lock
from viewer.engines import engine_name, store_format_named
from viewer.host.permitted import refusal_of
from viewer.host.project_secrets import redact_location_again, secrets_for
from viewer.host.reading.location_reader import LocationAddress, LocationReader, open_reader
from viewer.host_requests import Body, ImportCounts, NotReadable, Report
from viewer.messages.message import UserFacingError, UserMessage
from viewer.models import Checkpoint, Host, Location, PoolMember
from viewer.models.runs import source_text
from viewer.records.bucket import BucketAway
from viewer.stores import (
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
)

# Seconds between two reports of the counts.
REPORT_SECONDS = 0.2
# How often imports without changes are recorded. A location that another program writes to, or that reports
# no changes, is imported every second.
RECORDED_EVERY = timedelta(seconds=20)


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
        is_current = time.monotonic() < self.expires_at and self.context == location.import_context
        return is_current and not location.import_state


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
    identity = identity_here(location)
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
    if location.is_observed_here:
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


def server_of(location: Location) -> ServerAddress:
    """The connection of a run to a location's database. May hold a password. Raises NotConfigured."""
    try:
        return server_address(name_in(location.path))
    except LocationUnreadable as error:
        raise NotConfigured(error.message) from None


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
    """Reload the location, and redact it again if that is due. Return False if the location was removed.

    Raises LocationUnreadable if stored copies cannot be redacted now, or if it must not be opened here.
    """
    if not location.refresh_if_exists():
        return False
    location.refresh_from_db(fields=["project", "secrets_digest", "price_digest", "listed_fingerprint"])
    refuse_outside(location)
    try:
        if location.is_observed_here:
            # The others of its pool have the same secrets, and their own keys for the digest.
            redact_location_again(location)
    except BucketAway as away:
        raise LocationUnreadable(away.message) from None
    return True


def update_locked(
    location: Location, update: Callable[[], ImportSummary], *, wait: bool = True
) -> ImportSummary:
    """Return what ``update`` returns for a location that is locked and reloaded, or why it was not called.

    Without ``wait``, it is not called while another process imports the location.
    """
    try:
        with import_lock(location, wait=wait) as is_ours:
            if not is_ours:
                return ImportSummary(is_skipped=True)
            return update() if refresh(location) else ImportSummary()
    except LocationUnreadable as error:
        return ImportSummary(read_error=error.message)
    except OSError as error:
        # The lock needs a file descriptor and disk space.
        return ImportSummary(read_error=system_error(error))


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
        replaced_by = error.identity if location.is_observed_here else ""
        return ImportSummary(read_error=error.message, replaced_by=replaced_by)
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
            store_format.ids_in_row(key, None, "").checkpoint_id, source_text(location.path, key)
        )
    ids = store_format.ids_in_path(key)
    return UnredactedSource(ids.checkpoint_id, str(Path(location.path) / key), ids.branch)

"""Import a location: list it, read what is new or has changed, and update the lineage of its runs."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from django.utils import timezone

from viewer.host.locations.addresses import address_of, import_lock
from viewer.host.locations.indexing import forget_index, update_run, update_runs
from viewer.host.locations.polling import update_polled
from viewer.host.locations.project_secrets import redact_known_secrets
from viewer.host.locations.updating import (
    ImportCounter,
    ImportSummary,
    update_all,
    update_newest,
    update_some,
)
from viewer.host.reading.location_reader import LocationReader, open_reader
from viewer.messages.message import UserMessage
from viewer.models import Location, Run
from viewer.records.locations import is_indexed
from viewer.stores.errors import LocationLimitExceeded, LocationReplaced, LocationUnreadable

# How often imports without changes are recorded. A location that another program writes to, or that reports
# no changes, is imported every second.
RECORDED_EVERY = timedelta(seconds=20)


# Of a location with more checkpoints, the newest are shown while the others are imported.
NEWEST = 50


def import_location(
    location: Location, *, wait: bool = True, counts: ImportCounter | None = None
) -> ImportSummary:
    """Bring the rows of a location up to date. Only new and changed entries are read.

    Updates ``counts`` meanwhile.

    Without ``wait``, this is one of many polls: it does nothing while another process imports the location,
    or after a person cancelled the import, and rarely lists a large folder.
    """
    try:
        with import_lock(location, wait=wait) as is_ours:
            if not is_ours:
                return ImportSummary(is_skipped=True)
            if not refresh(location):
                return ImportSummary()
            if not wait and location.import_state == Location.ImportState.CANCELLED:
                return ImportSummary()
            summary = _with_reader(location, lambda reader: _update(location, reader, not wait, counts))
            if not summary.is_cancelled:
                location.end_import()
            record(location, summary)
    except OSError as error:
        # The lock needs a file descriptor and disk space.
        return ImportSummary(read_error=_system_error(error))
    return summary


def import_added(location: Location) -> ImportSummary:
    """Import a location that was just added, or only the newest checkpoints of a large one.

    The worker imports the others in the background.
    """
    if is_indexed(location):
        return import_location(location)
    try:
        with import_lock(location, wait=False) as is_ours:
            if not is_ours or not refresh(location):
                return ImportSummary()
            summary = _with_reader(location, lambda reader: update_newest(location, reader, NEWEST))
    except OSError as error:
        return ImportSummary(read_error=_system_error(error))
    if location.import_state != Location.ImportState.REQUESTED:
        return import_location(location)
    record(location, summary)
    return summary


def _update(
    location: Location, reader: LocationReader, is_poll: bool, counts: ImportCounter | None
) -> ImportSummary:
    if is_indexed(location):
        return update_runs(location, reader)
    return update_polled(location, reader) if is_poll else update_all(location, reader, counts=counts)


def import_run(run: Run, *, newest_first: bool = False) -> ImportSummary:
    """Bring the checkpoints of a run up to date, if its location is only indexed.

    With ``newest_first``, a long run that was never listed is only partly listed: a page shows the newest
    checkpoints, and the worker or the next request lists the others.

    A read error is not recorded, since other runs of the location may be readable.
    """
    location = run.location
    if not is_indexed(location):
        return ImportSummary()
    try:
        with import_lock(location):
            if not refresh(location):
                return ImportSummary()
            summary = _with_reader(
                location, lambda reader: update_run(run, reader, newest_first=newest_first)
            )
            if summary.is_news and not summary.read_error:
                record(location, summary)
    except OSError as error:
        return ImportSummary(read_error=_system_error(error))
    return summary


def import_one(location: Location, source: str) -> ImportSummary:
    """Import one checkpoint that was just written: a file's path, ``store.db#id``, or a key of the location.

    Does nothing if there is no such checkpoint.
    """
    if is_indexed(location):
        return import_location(location)
    key = _key_of(location, source)
    with import_lock(location):
        if not refresh(location):
            return ImportSummary()
        summary = _with_reader(location, lambda reader: update_some(location, reader, [key]))
        if not summary.read_error:
            record(location, summary)
    return summary


def redact_stored(location: Location) -> None:
    """Redact the project's secrets in the stored data of a location, as its next import would."""
    with import_lock(location):
        refresh(location)


def refresh(location: Location) -> bool:
    """Reload the location and redact newly known secrets. Return False if the location was removed."""
    if not location.refresh_if_exists():
        return False
    location.refresh_from_db(fields=["project", "secrets_digest", "price_digest", "listed_fingerprint"])
    digest = location.secrets_digest
    redact_known_secrets(location)
    if location.secrets_digest != digest and is_indexed(location):
        forget_index(location)
    return True


def _with_reader(location: Location, update: Callable[[LocationReader], ImportSummary]) -> ImportSummary:
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
        return ImportSummary(read_error=error.message, replaced_by=error.identity)
    except LocationLimitExceeded as error:
        return ImportSummary(read_error=error.message, refused_fingerprint=mark)
    except LocationUnreadable as error:
        return ImportSummary(read_error=error.message)
    except OSError as error:
        return ImportSummary(read_error=_system_error(error))


def _system_error(error: OSError) -> UserMessage:
    return UserMessage("import.read_failed", {"why": str(error.strerror or error)})


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

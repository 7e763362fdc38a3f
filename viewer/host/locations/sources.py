"""The source of a location: where readers find it, how an import opens it, and its checkpoints one by one."""

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from viewer.data_folder.locks import row_lock
from viewer.engines import engine_name, store_format_named
from viewer.host.locations.project_secrets import redact_known_secrets, secrets_for
from viewer.host.locations.results import ImportSummary
from viewer.host.permitted import refusal_of
from viewer.host.reading.location_reader import LocationAddress, LocationReader, open_reader
from viewer.host_requests import Body, NotReadable
from viewer.messages.message import UserFacingError, UserMessage
from viewer.models import Checkpoint, Host, Location, PoolMember
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
from viewer.stores.errors import LocationLimitExceeded, LocationReplaced, LocationUnreadable
from viewer.stores.packing import Packed
from viewer.stores.protocol import Entry, ReadLimits


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

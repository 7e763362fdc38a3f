"""Where the readers find a location, how much of it is copied, and the limits within which they read it."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from django.conf import settings

from viewer.data_folder.locks import row_lock
from viewer.host.locations.project_secrets import secrets_for
from viewer.host.reading.location_reader import LocationAddress
from viewer.messages.message import UserFacingError
from viewer.models import Location
from viewer.stores.addresses import Identity, ServerAddress, libpq_environment, name_in, path_of_database
from viewer.stores.errors import LocationUnreadable
from viewer.stores.protocol import ReadLimits


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


def address_of(location: Location) -> LocationAddress:
    """The address of a location, pinned to the identity that was added, without links below the roots.

    Raises LocationUnreadable for a database that is not in the settings.
    """
    identity = Identity.parse(location.identity)
    secrets = secrets_for(location.project)
    server = None
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
    )


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


# One import of a location at a time, across processes.


def import_lock(location: Location, *, wait: bool = True) -> AbstractContextManager[bool]:
    """Hold the import lock of this location. Raises OSError if the lock file cannot be opened.

    Without ``wait``, yields False if another process holds the lock.
    """
    return row_lock(f"imports/{location.uid}", wait=wait)

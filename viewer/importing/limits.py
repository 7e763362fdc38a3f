"""The limits of the settings, and how a location is read within them."""

from pathlib import Path

from django.conf import settings

from viewer.importing.stored_copies.project_secrets import secrets_for
from viewer.models import Location
from viewer.stores.location_reader import LocationAddress
from viewer.stores.protocol import Limits
from viewer.stores.safe_open import Identity


def limits() -> Limits:
    """The limits for one checkpoint, from the settings."""
    return Limits(
        max_bytes=settings.CHECKPOINT_MAX_BYTES,
        max_depth=settings.CHECKPOINT_MAX_DEPTH,
        max_seconds=settings.CHECKPOINT_MAX_SECONDS,
        max_memory=settings.CHECKPOINT_MAX_MEMORY,
    )


def address_of(location: Location) -> LocationAddress:
    """How to read a location: pinned to what was added, without links below the allowed folders."""
    identity = Identity.parse(location.identity)
    secrets = secrets_for(location.project)
    return LocationAddress(
        Path(location.path), limits(), settings.CHECKPOINT_ROOTS, identity, secrets, location.engine
    )


def address_at(path: Path) -> LocationAddress:
    """How to read whatever is at a path now."""
    return LocationAddress(path, limits(), settings.CHECKPOINT_ROOTS)

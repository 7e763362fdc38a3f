"""The bounds that the settings give, and what is read within them."""

from pathlib import Path

from django.conf import settings

from viewer.importing.known_secrets import secrets_for
from viewer.models import Location
from viewer.stores.protocol import Limits
from viewer.stores.safe_open import Identity
from viewer.stores.store import Address


def limits() -> Limits:
    """How large, deep and slow one checkpoint may be, and how much memory reading it may take."""
    return Limits(
        most_bytes=settings.CHECKPOINT_MAX_BYTES,
        most_depth=settings.CHECKPOINT_MAX_DEPTH,
        most_seconds=settings.CHECKPOINT_MAX_SECONDS,
        most_memory=settings.CHECKPOINT_MAX_MEMORY,
    )


def address_of(location: Location) -> Address:
    """What is to be read of a location: only what was added, and no link below the allowed folders."""
    identity = Identity.parse(location.identity)
    secrets = secrets_for(location.project)
    return Address(Path(location.path), limits(), settings.CHECKPOINT_ROOTS, identity, secrets)


def address_at(path: Path) -> Address:
    """What is at a path now, whatever that is."""
    return Address(path, limits(), settings.CHECKPOINT_ROOTS)

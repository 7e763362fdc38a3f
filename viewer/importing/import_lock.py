"""One import of a location at a time, across processes."""

from contextlib import AbstractContextManager

from viewer.locks import lock_named
from viewer.models import Location


def import_lock(location: Location) -> AbstractContextManager[bool]:
    """Hold the lock of this location. Waits for it, and raises OSError if there can be none."""
    return lock_named(f"imports/{location.uid}").held(wait=True)

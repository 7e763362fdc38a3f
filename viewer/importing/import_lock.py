"""One import of a location at a time, across processes."""

from contextlib import AbstractContextManager

from viewer.locks import lock_named
from viewer.models import Location


def import_lock(location: Location, *, wait: bool = True) -> AbstractContextManager[bool]:
    """Hold the import lock of this location. Raises OSError if the lock file cannot be opened.

    Without ``wait``, yields False if another process holds the lock.
    """
    return lock_named(f"imports/{location.uid}").held(wait=wait)

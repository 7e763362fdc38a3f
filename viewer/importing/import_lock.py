"""One import of a location at a time, across processes."""

from contextlib import AbstractContextManager

from viewer.locks import lock_named
from viewer.models import Location


def import_lock(location: Location, *, wait: bool = True) -> AbstractContextManager[bool]:
    """Hold the lock of this location. Raises OSError if there can be none.

    Yields False if another process holds it and this one does not ``wait``.
    """
    return lock_named(f"imports/{location.uid}").held(wait=wait)

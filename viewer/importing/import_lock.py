"""One import of a location at a time, across processes."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

from viewer.models import Location


@contextmanager
def import_lock(location: Location) -> Iterator[None]:
    """Hold the lock of this location. Waits for it, and raises OSError if there can be none."""
    folder = Path(settings.DATA_DIR) / "imports"
    folder.mkdir(exist_ok=True, mode=0o700)
    lock = os.open(folder / f"{location.uid}.lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)

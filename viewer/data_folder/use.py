"""Who uses the data folder: each process of ours holds a shared lock on it for as long as it lives."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.utils.translation import gettext as _

from viewer.data_folder.failures import DataFolderFailure

_held: dict[Path, int] = {}


def use(folder: Path) -> None:
    """Hold it for the rest of this process. Waits while a restore replaces the database."""
    if folder not in _held:
        descriptor = _opened(folder)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        _held[folder] = descriptor


@contextmanager
def nobody_else(folder: Path) -> Iterator[None]:
    """Keep everybody out meanwhile. Raises DataFolderFailure where somebody uses it."""
    descriptor = _opened(folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        words = _("Forkline is running on %(path)s. Stop it, and wait for commands to end, then try again.")
        raise DataFolderFailure(words % {"path": folder}) from None
    finally:
        os.close(descriptor)


def _opened(folder: Path) -> int:
    return os.open(folder / "in_use.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

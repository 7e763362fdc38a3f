"""The lock on the data folder: each of Forkline's processes holds it, shared, until it exits."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from django.conf import settings
from django.utils.translation import gettext as _

from viewer.data_folder.failures import DataFolderFailure
from viewer.locks import Lock, lock_named

# By data folder. Never closed: a lock is released when its process exits.
_held: dict[str, ExitStack] = {}


def use() -> None:
    """Hold the lock until this process exits. Waits while a restore replaces the database."""
    folder = str(settings.DATA_DIR)
    if folder not in _held:
        held = ExitStack()
        held.enter_context(_lock().held(shared=True, wait=True))
        _held[folder] = held


def end_use() -> None:
    """Release the lock before this process exits."""
    if held := _held.pop(str(settings.DATA_DIR), None):
        held.close()


@contextmanager
def nobody_else() -> Iterator[None]:
    """Hold the lock exclusively. Raises DataFolderFailure if another process uses the folder."""
    with _lock().held() as is_held:
        if not is_held:
            text = _(
                "Forkline is running on %(path)s. Stop it, and wait for commands to end, then try again."
            )
            raise DataFolderFailure(text % {"path": settings.DATA_DIR})
        yield


def _lock() -> Lock:
    return lock_named("in_use")

"""Turns SQLite's errors into ours: the bytes are damaged, exceed a limit, or could not be read this time."""

import apsw

from viewer.stores.errors import (
    Incomplete,
    LimitExceeded,
    LocationLimitExceeded,
    LocationUnreadable,
    Unavailable,
    Unreadable,
)
from viewer.stores.protocol import ReadLimits
from viewer.stores.snapshots import too_much_memory, too_slow

_LOCKED = (apsw.BusyError, apsw.LockedError, apsw.ProtocolError)
_NO_MEMORY = (apsw.NoMemError, MemoryError)
# Caused by the system or a writer: the next attempt may read the same bytes.
_PASSING = (
    *_LOCKED,
    apsw.IOError,
    apsw.FullError,
    apsw.CantOpenError,
    apsw.ReadOnlyError,
    apsw.PermissionsError,
    apsw.SchemaChangeError,
    OSError,
)


class UnfinishedWrite(LocationUnreadable):
    """A transaction was not finished, and only a writer can roll it back."""

    def __init__(self) -> None:
        super().__init__("store.half_written")


def is_damage(error: BaseException) -> bool:
    """Whether the error is about damaged bytes, so that other rows may be readable."""
    return isinstance(error, apsw.Error) and not isinstance(
        error, (*_PASSING, *_NO_MEMORY, apsw.InterruptError)
    )


def location_error(error: Exception, limits: ReadLimits) -> LocationUnreadable:
    """The error for a file that cannot be read."""
    if isinstance(error, _LOCKED):
        return LocationUnreadable("store.locked")
    if isinstance(error, apsw.InterruptError):
        return _refused(too_slow(limits))
    if isinstance(error, _NO_MEMORY):
        return _refused(too_much_memory(limits))
    if isinstance(error, apsw.NotADBError):
        return LocationUnreadable("store.not_sqlite")
    if isinstance(error, apsw.ReadOnlyError | apsw.CantOpenError):
        return UnfinishedWrite()
    if isinstance(error, _PASSING):
        return LocationUnreadable("store.read_failed_retry", why=_why(error))
    return LocationUnreadable("store.table_damaged")


def row_error(error: Exception, limits: ReadLimits) -> Unreadable:
    """The error for a row that cannot be read."""
    if isinstance(error, apsw.InterruptError):
        return too_slow(limits)
    if isinstance(error, _NO_MEMORY):
        return too_much_memory(limits)
    if isinstance(error, apsw.TooBigError):
        return LimitExceeded("store.row_too_large")
    if isinstance(error, _PASSING):
        return Unavailable("store.read_failed", why=_why(error))
    if "JSON" in str(error):
        return Incomplete("store.row_not_json")
    # A writer may be active. If the row does not change for a while, it counts as broken.
    return Incomplete("store.row_damaged")


def _refused(error: Unreadable) -> LocationLimitExceeded:
    return LocationLimitExceeded(error.message)


def _why(error: Exception) -> str:
    """SQLite's own description of an error, without anything that quotes the file."""
    if isinstance(error, OSError):
        return str(error.strerror)
    code = getattr(error, "extendedresult", 0)
    return str(apsw.mapping_extended_result_codes.get(code) or type(error).__name__)

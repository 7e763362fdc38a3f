"""What SQLite's errors mean: the bytes are damaged, exceed a limit, or could not be read this time."""

import apsw

from viewer.messages.message import gettext_noop as _
from viewer.stores.errors import (
    Incomplete,
    LocationRefused,
    LocationUnreadable,
    Refused,
    Unavailable,
    Unreadable,
)
from viewer.stores.protocol import Limits
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
    """A writer has not finished a transaction, and only a writer can roll it back."""

    def __init__(self) -> None:
        super().__init__(_("A writer did not finish. Open the file once with the program that wrote it."))


def is_damage(error: BaseException) -> bool:
    """Whether the error is about damaged bytes, so that other rows may be readable."""
    return isinstance(error, apsw.Error) and not isinstance(
        error, (*_PASSING, *_NO_MEMORY, apsw.InterruptError)
    )


def location_error(error: Exception, limits: Limits) -> LocationUnreadable:
    """The error for a file that cannot be read."""
    if isinstance(error, _LOCKED):
        return LocationUnreadable(_("Another program has locked the file. Try again."))
    if isinstance(error, apsw.InterruptError):
        return _refused(too_slow(limits))
    if isinstance(error, _NO_MEMORY):
        return _refused(too_much_memory(limits))
    if isinstance(error, apsw.NotADBError):
        return LocationUnreadable(_("It is not an SQLite file, or it is encrypted."))
    if isinstance(error, apsw.ReadOnlyError | apsw.CantOpenError):
        return UnfinishedWrite()
    if isinstance(error, _PASSING):
        return LocationUnreadable(_("The file could not be read: %(why)s. Try again."), why=_why(error))
    return LocationUnreadable(_("The file is damaged: its table cannot be read."))


def row_error(error: Exception, limits: Limits) -> Unreadable:
    """The error for a row that cannot be read."""
    if isinstance(error, apsw.InterruptError):
        return too_slow(limits)
    if isinstance(error, _NO_MEMORY):
        return too_much_memory(limits)
    if isinstance(error, apsw.TooBigError):
        return Refused(_("The row exceeds SQLite's limit."))
    if isinstance(error, _PASSING):
        return Unavailable(_("It could not be read: %(why)s."), why=_why(error))
    if "JSON" in str(error):
        return Incomplete(_("SQLite cannot read the row's data as JSON."))
    # A writer may be active. If the row does not change for a while, it counts as broken.
    return Incomplete(_("The row is on a damaged page."))


def _refused(error: Unreadable) -> LocationRefused:
    return LocationRefused(error.words.text, **error.words.values)


def _why(error: Exception) -> str:
    """SQLite's own description of an error, without anything that quotes the file."""
    if isinstance(error, OSError):
        return str(error.strerror)
    code = getattr(error, "extendedresult", 0)
    return str(apsw.mapping_extended_result_codes.get(code) or type(error).__name__)

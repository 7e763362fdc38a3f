"""What SQLite's errors say of a store: its bytes are damaged, too much to read, or could not be had."""

import apsw

from viewer.messages.message import gettext_noop as _
from viewer.stores.parsing import too_much_memory, too_slow
from viewer.stores.protocol import (
    Limits,
    LocationRefused,
    LocationUnreadable,
    Refused,
    StillWritten,
    Unavailable,
    Unreadable,
)

_LOCKED = (apsw.BusyError, apsw.LockedError, apsw.ProtocolError)
_NO_MEMORY = (apsw.NoMemError, MemoryError)
# The system's doing, or a writer's: the same bytes may be read at the next attempt.
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


class HalfDone(LocationUnreadable):
    """A writer ended, or is, in the middle of its work, and only a writer may put that right."""

    def __init__(self) -> None:
        super().__init__(_("A writer left it half done: open it once with the program that wrote it."))


def is_damage(error: BaseException) -> bool:
    """Whether the error is about the bytes, so that other rows may be whole."""
    return isinstance(error, apsw.Error) and not isinstance(
        error, (*_PASSING, *_NO_MEMORY, apsw.InterruptError)
    )


def location_error(error: Exception, limits: Limits) -> LocationUnreadable:
    """Why the whole store cannot be read."""
    if isinstance(error, _LOCKED):
        return LocationUnreadable(_("Another program holds the file locked. Try again."))
    if isinstance(error, apsw.InterruptError):
        return _refused(too_slow(limits))
    if isinstance(error, _NO_MEMORY):
        return _refused(too_much_memory(limits))
    if isinstance(error, apsw.NotADBError):
        return LocationUnreadable(_("It is no SQLite file, or it is encrypted."))
    if isinstance(error, apsw.ReadOnlyError | apsw.CantOpenError):
        return HalfDone()
    if isinstance(error, _PASSING):
        return LocationUnreadable(_("The file could not be read: %(why)s. Try again."), why=_why(error))
    return LocationUnreadable(_("The file is damaged: its table cannot be read."))


def row_error(error: Exception, limits: Limits) -> Unreadable:
    """Why one row cannot be read."""
    if isinstance(error, apsw.InterruptError):
        return too_slow(limits)
    if isinstance(error, _NO_MEMORY):
        return too_much_memory(limits)
    if isinstance(error, apsw.TooBigError):
        return Refused(_("The row is larger than SQLite hands out."))
    if isinstance(error, _PASSING):
        return Unavailable(_("It could not be read: %(why)s."), why=_why(error))
    if "JSON" in str(error):
        return StillWritten(_("The row's data are no JSON that SQLite can read."))
    # A writer may be at it; where the row stays so, it will be called broken.
    return StillWritten(_("The row stands on a damaged page."))


def _refused(error: Unreadable) -> LocationRefused:
    return LocationRefused(error.words.text, **error.words.values)


def _why(error: Exception) -> str:
    """What SQLite says of its own, without what stands in the file."""
    if isinstance(error, OSError):
        return str(error.strerror)
    code = getattr(error, "extendedresult", 0)
    return str(apsw.mapping_extended_result_codes.get(code) or type(error).__name__)

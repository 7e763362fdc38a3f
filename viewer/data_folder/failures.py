"""Failures of the disk or the database, as one sentence that says what to do."""

import errno
import logging
import os
import shutil
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.db.utils import DatabaseError
from django.utils.translation import gettext as _

from viewer import postgresql
from viewer.messages.message import UserMessage

# SQLite's primary result codes (the low byte): https://sqlite.org/rescode.html
BUSY, LOCKED, READONLY, IOERR, CORRUPT, FULL, CANTOPEN, NOTADB = 5, 6, 8, 10, 11, 13, 14, 26
NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
NOT_WRITABLE = {errno.EROFS, errno.EACCES, errno.EPERM}
# With less than this, SQLite fails to extend its files in several ways.
LITTLE_SPACE = 1024 * 1024


class DataFolderFailure(Exception):
    """The data folder cannot be used as it is. The message says why and what to do."""


def log_failure(logger: logging.Logger, what: str, error: Exception) -> None:
    """Log that something failed and is tried again. An unexpected error is logged with its traceback.

    Of a full disk, or a database that is away, the message says all that a person can use.
    """
    is_expected = isinstance(error, DatabaseError | OSError)
    logger.warning("%s failed: %s", what, error, exc_info=not is_expected)


def database_path() -> Path:
    """Return the path of the database, unless it is on a server."""
    return Path(str(connection.settings_dict["NAME"]))


def failure_text(error: BaseException) -> str:
    """Return the message for an error of the data folder's disk or database; empty for other errors."""
    if isinstance(error, DataFolderFailure):
        return str(error)
    if postgresql.is_used() and (text := postgresql.failure_text(error)):
        return text
    code = sqlite_code(error)
    if code is not None:
        return _of_sqlite(code)
    if isinstance(error, OSError) and _is_ours(error):
        return _of_disk(error)
    return ""


def sqlite_code(error: BaseException) -> int | None:
    """Return the primary result code of SQLite's error or of Django's for it; None if there is none."""
    if not isinstance(error, DatabaseError) and not hasattr(error, "sqlite_errorcode"):
        return None
    for one in (error, error.__cause__):
        code = getattr(one, "sqlite_errorcode", None)
        if code is not None:
            return int(code) & 0xFF
    return None


def _of_sqlite(code: int) -> str:
    path = database_path()
    if code == FULL or (code in (IOERR, CANTOPEN) and has_no_space(path.parent)):
        return no_space(path.parent)
    locked = _("Another program has locked the database: %(path)s. Wait for it or stop it, then try again.")
    sentences = {
        BUSY: locked,
        LOCKED: locked,
        READONLY: _("The database cannot be written: %(path)s. Check its owner and permissions."),
        CANTOPEN: _(
            "The database cannot be opened: %(path)s. Check that it exists, its owner and permissions."
        ),
        IOERR: _("Reading or writing the database failed: %(path)s. Check the disk that holds it."),
        CORRUPT: damaged(),
        NOTADB: damaged(),
    }
    return sentences.get(code, "") % {"path": path}


def damaged() -> str:
    """That the database is damaged, and how it is replaced; a form for its path."""
    return _(
        "The database is damaged: %(path)s. Stop Forkline, and restore a copy with"
        " “manage.py checkpoints restore FILE”. Copies from before upgrades are in “backups” next to it."
    )


def no_space(folder: Path) -> str:
    """That the disk of this folder is full."""
    text = _("No space is left on the disk of %(path)s. Free some, then try again.")
    return text % {"path": folder}


def has_no_space(folder: Path) -> bool:
    """Whether hardly anything more can be written there."""
    try:
        return shutil.disk_usage(folder).free < LITTLE_SPACE
    except OSError:
        return False


def folder_fault() -> UserMessage | None:
    """Return why no job can start here: the data folder is full, or cannot be written; None if one can."""
    try:
        has_room = shutil.disk_usage(settings.DATA_DIR).free >= settings.JOB_MIN_FREE_BYTES
    except OSError:
        return None
    if has_room and os.access(settings.DATA_DIR, os.W_OK | os.X_OK):
        return None
    return UserMessage(
        "host.not_writable" if has_room else "host.disk_full", {"path": str(settings.DATA_DIR)}
    )


def is_full_disk(error: BaseException) -> bool:
    """Whether this is an error of the data folder's disk or database because the disk is full."""
    code = sqlite_code(error)
    if code is not None:
        return code == FULL or (code in (IOERR, CANTOPEN) and has_no_space(database_path().parent))
    return isinstance(error, OSError) and error.errno in NO_SPACE and _is_ours(error)


def _is_ours(error: OSError) -> bool:
    """Whether it is about a file below the data folder, or about the disk with no file named."""
    if error.filename is None:
        return error.errno in NO_SPACE
    try:
        return Path(str(error.filename)).is_relative_to(settings.DATA_DIR)
    except (TypeError, ValueError):
        return False


def _of_disk(error: OSError) -> str:
    path = error.filename or settings.DATA_DIR
    if error.errno in NO_SPACE:
        return no_space(Path(settings.DATA_DIR))
    if error.errno in NOT_WRITABLE:
        return _("%(path)s cannot be written. Check its owner and permissions.") % {"path": path}
    if error.errno == errno.EIO:
        return _("Reading or writing %(path)s failed. Check its disk.") % {"path": path}
    return ""

"""Backups: consistent copies of the database, also while it is being written."""

import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from django.utils.translation import gettext as _

from viewer import sqlite_pragmas
from viewer.data_folder.failures import DataFolderFailure, failure_text
from viewer.data_folder.inspection import opened_to_read

# Number of backups that are kept for each reason.
KEPT = 3
SIDE_FILES = ("-wal", "-shm", "-journal")


def copy_database(database: Path, copy: Path) -> None:
    """Copy the database to one file that only its owner can read. Other processes may write meanwhile.

    Raises DataFolderFailure where the copy is there already, or cannot be made; then nothing is left of it.
    """
    try:
        os.close(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        text = _("%(path)s already exists. Choose another name.")
        raise DataFolderFailure(text % {"path": copy}) from None
    except OSError as error:
        text = _("%(path)s cannot be created: %(reason)s.")
        raise DataFolderFailure(text % {"path": copy, "reason": error.strerror}) from error
    try:
        with opened_to_read(database) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
            sqlite_pragmas.leave_wal_mode(target)
            refuse_damaged(target, copy)
    except (sqlite3.Error, DataFolderFailure) as error:
        for path in (copy, *(Path(f"{copy}{side}") for side in SIDE_FILES)):
            path.unlink(missing_ok=True)
        text = _("No copy was created at %(path)s: %(reason)s")
        reason = failure_text(error) or str(error)
        raise DataFolderFailure(text % {"path": copy, "reason": reason}) from error


def refuse_damaged(database: sqlite3.Connection, path: Path) -> None:
    """Raises DataFolderFailure if SQLite finds an error in it."""
    if fault := sqlite_pragmas.first_fault(database):
        raise DataFolderFailure(_("%(path)s is damaged: %(fault)s") % {"path": path, "fault": fault})


def backup_path(folder: Path, why: str) -> Path:
    """The path of a new backup for this reason."""
    backups = folder / "backups"
    backups.mkdir(exist_ok=True, mode=0o700)
    return backups / f"forkline-{why}-{datetime.now(UTC):%Y%m%dT%H%M%S%f}.sqlite3"


def delete_old_backups(folder: Path, why: str) -> None:
    """Delete all but the latest backups for this reason."""
    for old in sorted((folder / "backups").glob(f"forkline-{why}-*.sqlite3"))[:-KEPT]:
        for path in (old, *(Path(f"{old}{side}") for side in SIDE_FILES)):
            path.unlink(missing_ok=True)

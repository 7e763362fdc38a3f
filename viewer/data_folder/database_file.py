"""The file of the database: copies of it, replacing it with one, and clearing its write-ahead log."""

import json
import logging
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.db.utils import DatabaseError
from django.utils.translation import gettext as _

from viewer import postgresql, sqlite_pragmas
from viewer.data_folder.failures import DataFolderFailure, database_path, failure_text
from viewer.data_folder.locks import nobody_else
from viewer.data_folder.migrating import inspect, opened_to_read, refuse_other_versions
from viewer.messages.message import UserMessage

logger = logging.getLogger(__name__)

# Backups: consistent copies, also while it is being written.

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
    except BaseException as error:
        delete_backup(copy)
        if not isinstance(error, sqlite3.Error | DataFolderFailure):
            raise
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


def delete_old_backups(newest: Path) -> None:
    """Delete all but the latest backups for the reason of this one, which was just made.

    It stays even if the clock was ahead when the others were made.
    """
    why = newest.name.rpartition("-")[0]
    others = {*newest.parent.glob(f"{why}-*.sqlite3")} - {newest}
    for old in sorted(others)[: 1 - KEPT]:
        delete_backup(old)


def delete_backup(copy: Path) -> None:
    """Delete a copy, and what SQLite may have left next to it."""
    for path in (copy, *(Path(f"{copy}{side}") for side in SIDE_FILES)):
        path.unlink(missing_ok=True)


# Replacing the database with a copy. The replaced one stays next to it.


def restore(copy: Path, folder: Path, is_running: Callable[[], bool]) -> Path | None:
    """Replace the database with the copy. Return where the replaced one is kept; None if there was none.

    ``is_running`` says whether the child of a job still runs. Raises DataFolderFailure where the copy does
    not fit or somebody uses the data folder; then nothing has changed.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    check_copy(copy)
    with nobody_else():
        if is_running():
            text = _("A run has not ended in %(path)s. Wait until it ends, or cancel it, then try again.")
            raise DataFolderFailure(text % {"path": folder})
        staged = backup_path(folder, "restoring")
        try:
            copy_database(copy, staged)
            make_harmless(staged)
            replaced = put_aside(backup_path(folder, "replaced"))
            staged.replace(database_path())
        except sqlite3.Error as error:
            raise DataFolderFailure(failure_text(error) or str(error)) from error
        finally:
            staged.unlink(missing_ok=True)
        if replaced:
            delete_old_backups(replaced)
    return replaced


def check_copy(copy: Path) -> None:
    """Raise DataFolderFailure unless this is an intact database that this version can use."""
    if not copy.is_file() or not copy.stat().st_size:
        raise DataFolderFailure(_("There is no copy of a database at %(path)s.") % {"path": copy})
    if database_path().exists() and copy.samefile(database_path()):
        raise DataFolderFailure(_("%(path)s is the database itself.") % {"path": copy})
    try:
        found = inspect(copy)
    except sqlite3.Error as error:
        raise DataFolderFailure(
            _("%(path)s is damaged: %(fault)s") % {"path": copy, "fault": error}
        ) from error
    if found.is_new:
        raise DataFolderFailure(_("There is no copy of a database at %(path)s.") % {"path": copy})
    refuse_other_versions(copy, found)


def make_harmless(path: Path) -> None:
    """Remove queued jobs and sessions from the copy.

    The jobs may have run since the copy was made, and the users may have lost their access.
    """
    with closing(sqlite3.connect(path)) as database:
        sqlite_pragmas.overwrite_deleted(database)
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "django_session" in tables:
            database.execute("DELETE FROM django_session")
        if "viewer_job" in tables:
            end_unfinished(database)
        database.commit()


def end_unfinished(database: sqlite3.Connection) -> None:
    """End each job that had not ended, and delete what a person typed for it."""
    # Imported here: Django's backend imports this package before there are models.
    from viewer.models.jobs import Job, without_edits

    ended = ", ".join(f"'{status}'" for status in Job.ENDED)
    rows = list(database.execute(f"SELECT id, request FROM viewer_job WHERE status NOT IN ({ended})"))  # noqa: S608
    now = str(datetime.now(UTC).replace(tzinfo=None))
    error = json.dumps(UserMessage("job.unfinished_in_backup").as_data())
    for pk, request in rows:
        kept = json.dumps(without_edits(json.loads(request)))
        database.execute(
            "UPDATE viewer_job SET status = 'interrupted', ended_at = ?, error = ?, request = ? WHERE id = ?",
            (now, error, kept, pk),
        )
        database.execute(
            "UPDATE viewer_question SET withdrawn_at = ?"
            " WHERE job_id = ? AND answered_at IS NULL AND withdrawn_at IS NULL",
            (now, pk),
        )


def put_aside(aside: Path) -> Path | None:
    """Keep the current database under another name, too. Return it, or None if there is no database.

    No log is left: SQLite would apply it to the next database.
    """
    path = database_path()
    if not path.exists():
        for side in SIDE_FILES:
            Path(f"{path}{side}").unlink(missing_ok=True)
        return None
    with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as database:
        # A damaged one is kept with its log, as it is.
        sqlite_pragmas.empty_log(database)
    os.link(path, aside)
    for side in SIDE_FILES:
        with suppress(FileNotFoundError):
            Path(f"{path}{side}").rename(f"{aside}{side}")
    return aside


# Removing overwritten data from the write-ahead log, which otherwise keeps old pages.

LOG_ATTEMPTS = 20
SECONDS_BETWEEN_ATTEMPTS = 0.1
# Others wait for the lock meanwhile.
LOCK_MILLISECONDS = 100


def clear_log(attempts: int = LOG_ATTEMPTS) -> bool:
    """Write the log's pages to the database, and empty the log. False while other readers prevent it.

    Then the worker tries again. Does nothing inside a transaction, or on a server, which clears its own.
    """
    if postgresql.is_used():
        return True
    if connection.in_atomic_block:
        return False
    pending = _pending()
    try:
        pending.touch(mode=0o600)
        for attempt in range(attempts):
            if attempt:
                time.sleep(SECONDS_BETWEEN_ATTEMPTS)
            with connection.cursor() as cursor:
                is_emptied = sqlite_pragmas.empty_log(cursor, LOCK_MILLISECONDS)
            if is_emptied:
                pending.unlink(missing_ok=True)
                return True
    except (DatabaseError, OSError):
        logger.warning("the database's log could not be emptied", exc_info=True)
    return False


def clear_if_pending() -> None:
    """Retry a removal that failed before, in any process."""
    if _pending().exists():
        clear_log()


def _pending() -> Path:
    return Path(settings.DATA_DIR) / "log-not-emptied"

"""Replaces the database with a copy, and keeps the replaced one next to it."""

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

from django.utils.translation import gettext as _

from viewer import sqlite_pragmas
from viewer.data_folder.backups import (
    SIDE_FILES,
    backup_path,
    copy_database,
    delete_old_backups,
    inspect,
    refuse_other_versions,
)
from viewer.data_folder.failures import DataFolderFailure, database_path, failure_text
from viewer.data_folder.locks import nobody_else
from viewer.messages.message import UserMessage
from viewer.models.jobs import Job, without_edits


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
        delete_old_backups(folder, "replaced")
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
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "django_session" in tables:
            database.execute("DELETE FROM django_session")
        if "viewer_job" in tables:
            end_unfinished(database)
        database.commit()


def end_unfinished(database: sqlite3.Connection) -> None:
    """End each job that had not ended, and delete what a person typed for it."""
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

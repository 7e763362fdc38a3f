"""The data folder. The first process that uses it creates and upgrades it."""

import sqlite3
import sys
from contextlib import suppress
from pathlib import Path

from django.conf import settings
from django.db import connection, connections
from django.db.migrations.exceptions import MigrationSchemaMissing
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from viewer import postgresql, sqlite_pragmas
from viewer.data_folder import database_server, permissions
from viewer.data_folder.database_file import backup_path, copy_database, delete_backup, delete_old_backups
from viewer.data_folder.failures import (
    DataFolderFailure,
    database_path,
    failure_text,
)
from viewer.data_folder.locks import end_use, lock_named, nobody_else, use
from viewer.data_folder.migrating import (
    APPLICATION_ID,
    Inspected,
    Migration,
    apply_migrations,
    create_tables,
    inspect,
    refuse_other_versions,
    version_number,
)
from viewer.data_folder.permissions import OURS, Restricted, restrict


def prepare_data_folder() -> None:
    """Create the data folder and bring its database up to date. Safe from several processes at once.

    Raises DataFolderFailure where what is there is not ours, was made by a later version or by one before
    0.1.0, or is not what the process that started this one serves.
    """
    if changed := permissions.what_changed():
        raise DataFolderFailure(changed)
    folder = Path(settings.DATA_DIR)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    say_restricted(folder, restrict(folder))
    use()
    try:
        # Other processes wait for the lock.
        with lock_named("preparing").held(wait=True):
            if postgresql.is_used():
                database_server.bring_up_to_date()
            else:
                bring_up_to_date(folder)
    except BaseException:
        if settings.DATA_DIR_CREATED and not permissions.is_remembered():
            remove_unfinished(folder)
        raise
    permissions.remember()


def remove_unfinished(folder: Path) -> None:
    """Remove the data folder that this process has begun to create, unless another process uses it."""
    connections.close_all()
    end_use()
    with suppress(DataFolderFailure, OSError), nobody_else():
        for file in folder.iterdir():
            if OURS.fullmatch(file.name) and file.is_file():
                file.unlink()
        for created in settings.DATA_DIR_CREATED:
            created.rmdir()


def bring_up_to_date(folder: Path) -> None:
    """Create the tables, or copy the database and apply the missing migrations. Raises DataFolderFailure."""
    path = database_path()
    try:
        found = inspect(path)
    except sqlite3.Error as error:
        raise DataFolderFailure(failure_text(error) or f"{path}: {error}") from error
    refuse_other_versions(path, found)
    if found.is_new:
        if any((folder / "jobs").glob("*")):
            text = _("The database in %(folder)s was missing. A new, empty one was created.")
            sys.stderr.write(text % {"folder": folder} + "\n")
        create_tables()
    elif found.unapplied:
        upgrade(path, found.unapplied)
    note_version(found)


def upgrade(path: Path, unapplied: frozenset[Migration]) -> None:
    """Copy the database, and apply these migrations.

    An upgrade that fails may be tried again and again, after some of the migrations. So it deletes no copy
    but its own, and that only if it has changed nothing.
    """
    copy = backup_path(path.parent, "before-upgrade")
    copy_database(path, copy)
    try:
        apply_migrations()
    except Exception as error:
        with suppress(sqlite3.Error, DataFolderFailure):
            if inspect(path).unapplied == unapplied:
                delete_backup(copy)
        if isinstance(error, MigrationSchemaMissing):
            # Django raises it in place of the database's error.
            raise DataFolderFailure(failure_text(error.__context__ or error) or str(error)) from error
        raise
    delete_old_backups(copy)


def note_version(found: Inspected) -> None:
    """Record in the database's header that it is Forkline's, and the newest version that has used it."""
    ours = version_number(settings.VERSION)
    if found.version < ours:
        with connection.cursor() as cursor:
            sqlite_pragmas.note_user(cursor, APPLICATION_ID, ours)


def say_restricted(folder: Path, found: Restricted) -> None:
    """Report on stderr how many files were open to other users."""
    if found.paths:
        text = ngettext(
            "%(count)d file or folder in %(folder)s was open to other users. Now only its owner can read it.",
            "%(count)d files and folders in %(folder)s were open to other users."
            " Now only their owner can read them.",
            len(found.paths),
        )
        sys.stderr.write(text % {"count": len(found.paths), "folder": folder} + "\n")

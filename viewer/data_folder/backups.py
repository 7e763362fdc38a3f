"""Backups of the database: consistent copies, and which version made one."""

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from django.apps import apps
from django.conf import settings
from django.utils.translation import gettext as _

from viewer import postgresql, sqlite_pragmas
from viewer.data_folder.failures import DataFolderFailure, failure_text
from viewer.data_folder.migrating import REPLACEMENTS, Migration, migrations_on_disk

# The version as the one number that SQLite keeps in a database's head (``sqlite_pragmas.user_version``).


def version_number(version: str) -> int:
    """1.2.3 is 1002003."""
    major, minor, patch = (int(part) for part in version.split("."))
    return major * 1_000_000 + minor * 1000 + patch


def version_text(number: int) -> str:
    """Return the version of such a number."""
    return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"


# Which application and version made a database, and whether this version can use it. Read-only.


# "FKLN" in the file's header, which identifies it as Forkline's.
APPLICATION_ID = 0x464B4C4E
# The table in a database to which rows are being moved (viewer/data_folder/moving.py).
MARK = "forkline_moving"
# The oldest version whose database this one upgrades, and the migrations that such a database has.
OLDEST = "0.1.0"
OF_OLDEST = REPLACEMENTS["viewer", "0001_initial"]
# The migrations of versions between it and this one that were never released.
UNRELEASED = REPLACEMENTS["viewer", "0002_version_0_2_0"]
# Another process may be upgrading, or restoring.
TIMEOUT_SECONDS = 20


@dataclass(frozen=True, slots=True)
class Inspected:
    """``version`` is the number of the newest version that used it; 0 if it is not recorded.

    ``unapplied`` are migrations of ours that it lacks, ``unknown`` such that it has and we do not.
    ``is_older`` says that it lacks migrations which only earlier versions had, ``is_unreleased`` that it has
    some, but not all, of those that were never released.
    """

    is_new: bool
    version: int = 0
    unapplied: frozenset[Migration] = frozenset()
    unknown: frozenset[Migration] = frozenset()
    is_older: bool = False
    is_unreleased: bool = False


def opened_to_read(path: Path) -> closing[sqlite3.Connection]:
    """Return a read-only connection for a ``with`` block, which closes it. Raises sqlite3.Error."""
    address = f"file:{quote(os.fsencode(path))}?mode=ro"
    return closing(sqlite3.connect(address, uri=True, timeout=TIMEOUT_SECONDS))


def inspect(path: Path) -> Inspected:
    """Inspect the database. Raises DataFolderFailure if it is not Forkline's, or sqlite3.Error."""
    try:
        is_new = path.stat().st_size == 0
    except FileNotFoundError:
        is_new = True
    if is_new:
        return Inspected(is_new=True, unapplied=frozenset(migrations_on_disk()))
    with opened_to_read(path) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        applied: set[Migration] = set()
        if "django_migrations" in tables:
            applied = set(database.execute("SELECT app, name FROM django_migrations"))
        version = sqlite_pragmas.user_version(database)
    return inspected(path, tables, applied, version)


def inspected(where: Path | str, tables: set[str], applied: set[Migration], version: int = 0) -> Inspected:
    """What these tables and applied migrations say. Raises DataFolderFailure if they cannot be used."""
    if not tables:
        return Inspected(is_new=True, unapplied=frozenset(migrations_on_disk()))
    if MARK in tables:
        text = _("Rows are being moved to %(path)s, and the move has not ended. Repeat “forkline move”.")
        raise DataFolderFailure(text % {"path": where})
    on_disk = migrations_on_disk()
    if not is_ours(applied, tables, on_disk):
        text = _(
            "%(path)s is a database of another program. Move it away, or choose another folder (DATA_DIR=…)."
        )
        if postgresql.is_used():
            text = _("%(path)s has tables of another program. Choose another database (DATABASE_URL=…).")
        raise DataFolderFailure(text % {"path": where})
    labels = {app.label for app in apps.get_app_configs()}
    known = on_disk.union(*REPLACEMENTS.values())
    replacing = {one for one, replaced in REPLACEMENTS.items() if applied >= replaced}
    return Inspected(
        is_new=False,
        version=version,
        unapplied=frozenset(on_disk - applied - replacing),
        unknown=frozenset(one for one in applied - known if one[0] in labels),
        is_older=any(app == "viewer" for app, _name in applied) and not applied >= OF_OLDEST,
        is_unreleased=bool(applied & UNRELEASED) and not applied >= UNRELEASED,
    )


def is_ours(applied: set[Migration], tables: set[str], on_disk: set[Migration]) -> bool:
    """Whether it has Forkline's tables, or is unfinished and has no others."""
    if any(app == "viewer" for app, _name in applied):
        return True
    return "django_migrations" in tables and {app for app, _name in applied} <= {
        app for app, _name in on_disk
    }


def refuse_other_versions(path: Path | str, found: Inspected) -> None:
    """Raise DataFolderFailure if a later version has changed the schema, or if this one cannot upgrade it."""
    if not found.unknown:
        refuse_unsupported(path, found)
        return
    later = found.version > version_number(settings.VERSION)
    who = f"Forkline {version_text(found.version)}" if later else _("a later version of Forkline")
    text = _(
        "%(path)s was created by %(who)s; this is %(installed)s, which cannot read it (%(unknown)s). Use that"
        " version, or restore a copy from before: %(backups)s."
    )
    unknown = ", ".join(sorted(f"{app}.{name}" for app, name in found.unknown))
    values = {
        "who": who,
        "installed": settings.VERSION,
        "unknown": unknown,
        "backups": Path(settings.DATA_DIR) / "backups",
    }
    raise DataFolderFailure(text % {"path": path, **values})


def refuse_unsupported(path: Path | str, found: Inspected) -> None:
    """Raise DataFolderFailure if it is of before 0.1.0, or of a version that was never released."""
    text = ""
    if found.is_older:
        text = _(
            "%(path)s was created by a version before %(oldest)s, which %(installed)s cannot upgrade. Open it"
            " once with version %(oldest)s, then with this one."
        )
    elif found.is_unreleased:
        text = _(
            "%(path)s was changed by an unreleased version after %(oldest)s, which %(installed)s cannot"
            " upgrade. Restore a copy from version %(oldest)s, or start with an empty database."
        )
    if text:
        values = {"path": path, "oldest": OLDEST, "installed": settings.VERSION}
        raise DataFolderFailure(text % values)


# Backups: consistent copies of the database, also while it is being written.


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


def delete_old_backups(folder: Path, why: str) -> None:
    """Delete all but the latest backups for this reason."""
    for old in sorted((folder / "backups").glob(f"forkline-{why}-*.sqlite3"))[:-KEPT]:
        delete_backup(old)


def delete_backup(copy: Path) -> None:
    """Delete a copy, and what SQLite may have left next to it."""
    for path in (copy, *(Path(f"{copy}{side}") for side in SIDE_FILES)):
        path.unlink(missing_ok=True)

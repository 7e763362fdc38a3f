"""Which version made a database, whether this one can use it, and how it gets the tables of this one."""

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from urllib.parse import quote

from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.core.management.sql import emit_post_migrate_signal
from django.db import DEFAULT_DB_ALIAS, connection, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.recorder import MigrationRecorder
from django.utils.translation import gettext as _

from viewer import postgresql, sqlite_pragmas
from viewer.data_folder.failures import DataFolderFailure
from viewer.migrations import RELEASED, UNRELEASED

Migration = tuple[str, str]
# The migrations that replace others. Django records both.
REPLACEMENTS: dict[Migration, frozenset[Migration]] = {
    ("viewer", name): frozenset(("viewer", one) for one in replaced)
    for name, replaced in {"0001_initial": RELEASED, "0002_version_0_2_0": UNRELEASED}.items()
}


def migrations_on_disk() -> set[Migration]:
    """The migrations of this version, by the names of their files: importing them takes much longer."""
    return {
        (app.label, file.stem)
        for app in apps.get_app_configs()
        for file in Path(app.path, "migrations").glob("[!_]*.py")
    }


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
OF_UNRELEASED = REPLACEMENTS["viewer", "0002_version_0_2_0"]
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
        is_unreleased=bool(applied & OF_UNRELEASED) and not applied >= OF_UNRELEASED,
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


# Creating the tables of a new database at once, and applying the migrations that another one lacks.

# What a database has besides the tables of the models: the function of each migration that adds it.
ADDED = (
    ("0001_initial", "create_search_text"),
    ("0002_version_0_2_0", "add_default_host"),
    ("0002_version_0_2_0", "create_postgresql_indexes"),
    ("0002_version_0_2_0", "create_audit_triggers"),
)


def create_tables() -> None:
    """Create the tables of all models, and record all migrations as applied, in one transaction.

    A test compares the tables with those that the migrations lead to, which take twenty times as long. Raises
    DatabaseError.
    """
    recorded = MigrationRecorder.Migration
    with connection.schema_editor() as editor:
        tables: list[type[models.Model]] = [recorded, *apps.get_models()]
        for model in tables:
            if model._meta.can_migrate(connection):
                editor.create_model(model)
        if postgresql.is_used():
            from procrastinate.schema import SchemaManager

            widen_links(editor)
            # What the queue's migrations do: they are statements, and its models are not managed.
            editor.execute(SchemaManager.get_schema(), params=None)
        for statement in editor.deferred_sql:
            editor.execute(statement, params=None)
        editor.deferred_sql.clear()
        for migration, function in ADDED:
            getattr(import_module(f"viewer.migrations.{migration}"), function)(apps, editor)
        applied = migrations_on_disk().union(*REPLACEMENTS.values())
        recorded.objects.bulk_create(recorded(app=app, name=name) for app, name in sorted(applied))
        # Adds the permissions.
        emit_post_migrate_signal(verbosity=0, interactive=False, db=DEFAULT_DB_ALIAS)


def widen_links(editor: BaseDatabaseSchemaEditor) -> None:
    """Number the rows of Django's many-to-many tables as its migrations do: with DEFAULT_AUTO_FIELD."""
    for model in apps.get_models(include_auto_created=True):
        if model._meta.auto_created and not isinstance(model._meta.pk, models.BigAutoField):
            table = model._meta.db_table
            editor.execute(f'ALTER TABLE "{table}" ALTER COLUMN id TYPE bigint')
            editor.execute(f'ALTER SEQUENCE "{table}_id_seq" AS bigint')


def apply_migrations() -> None:
    """Apply what the database lacks. Raises MigrationSchemaMissing or DatabaseError."""
    call_command("migrate", interactive=False, verbosity=0)

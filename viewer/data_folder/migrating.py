"""Creates the tables of a new database at once, and applies the migrations that another one lacks."""

from importlib import import_module
from pathlib import Path

from django.apps import apps
from django.core.management import call_command
from django.core.management.sql import emit_post_migrate_signal
from django.db import DEFAULT_DB_ALIAS, connection, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.recorder import MigrationRecorder

from viewer import postgresql
from viewer.migrations import RELEASED, UNRELEASED

Migration = tuple[str, str]
# The migrations that replace others. Django records both.
REPLACEMENTS: dict[Migration, frozenset[Migration]] = {
    ("viewer", name): frozenset(("viewer", one) for one in replaced)
    for name, replaced in {"0001_initial": RELEASED, "0002_version_0_2_0": UNRELEASED}.items()
}
# What a database has besides the tables of the models: the function of each migration that adds it.
ADDED = (
    ("0001_initial", "create_search_text"),
    ("0002_version_0_2_0", "add_default_host"),
    ("0002_version_0_2_0", "create_postgresql_indexes"),
    ("0002_version_0_2_0", "create_audit_triggers"),
)


def migrations_on_disk() -> set[Migration]:
    """The migrations of this version, by the names of their files: importing them takes much longer."""
    return {
        (app.label, file.stem)
        for app in apps.get_app_configs()
        for file in Path(app.path, "migrations").glob("[!_]*.py")
    }


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

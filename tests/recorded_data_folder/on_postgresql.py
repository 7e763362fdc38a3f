"""Has a PostgreSQL database with the rows of the recorded SQLite database, as version 0.1.0 left them.

``load DATABASE`` creates the tables of that version and copies the rows. ``compare DATABASE``, after the
upgrade, prints the tables that lack one of the rows, with a value that was changed.
"""

import os
import sys
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "checkpoint_site.settings")
RECORDED = "recorded"
VERSION = ("viewer", "0001_initial")
# The upgrade removes what this application stored, and records the hosts of other locations.
REMOVED = "django_tasks_database"


def main(act: str, path: str) -> None:
    """Load the rows, or compare them."""
    django.setup()
    from django.db import connection, connections
    from django.db.migrations.executor import MigrationExecutor

    sqlite = {"ENGINE": "django.db.backends.sqlite3", "NAME": path, "OPTIONS": {}, "ATOMIC_REQUESTS": False}
    connections.settings[RECORDED] = {**connections.settings["default"], **sqlite}
    executor = MigrationExecutor(connection)
    nodes = [VERSION, *(one for one in executor.loader.graph.leaf_nodes() if one[0] in ("auth", "sessions"))]
    if act == "load":
        executor.migrate(nodes)
    state = executor.loader.project_state(nodes).apps
    tables = [model for model in state.get_models(include_auto_created=True) if model._meta.managed]
    load(tables) if act == "load" else print(lost(tables))


def load(tables: list[Any]) -> None:
    """Copy every row with its number."""
    from django.core.management.color import no_style
    from django.db import connection, transaction

    with transaction.atomic():
        for table in tables:
            table.objects.bulk_create(table.objects.using(RECORDED).order_by("pk"))
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), tables):
            cursor.execute(statement)


def lost(tables: list[Any]) -> list[str]:
    """Return the tables that lack a row, or have it with another value."""
    return [table._meta.db_table for table in tables if not rows_of(table, RECORDED) <= rows_of(table)]


def rows_of(table: Any, database: str = "default") -> set[str]:
    """Return the values of each row in the columns of version 0.1.0."""
    rows = table.objects.using(database)
    if table.__name__ == "ContentType":
        rows = rows.exclude(app_label=REMOVED)
    if table.__name__ == "Permission":
        rows = rows.exclude(content_type__app_label=REMOVED)
    return {repr(sorted(row.items())) for row in rows.values()}


if __name__ == "__main__":
    main(*sys.argv[1:])

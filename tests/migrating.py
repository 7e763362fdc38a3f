"""Databases of earlier versions, and their migration."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.apps.registry import Apps
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader


def single_migrations() -> MigrationExecutor:
    """Return an executor that applies each migration itself, not the one that replaces them."""
    executor = MigrationExecutor(connection)
    executor.loader = MigrationLoader(connection, replace_migrations=False)
    return executor


@contextmanager
def database_after(migration: str, folder: Path) -> Iterator[Apps]:
    """Use a new database in the folder, as this migration leaves it. Return the models of that time.

    Creating it takes a third of the time that it takes to migrate a present database back.
    """
    present = connection.settings_dict["NAME"]
    connection.close()
    connection.settings_dict["NAME"] = str(folder / "earlier.sqlite3")
    try:
        executor = single_migrations()
        others = [leaf for leaf in executor.loader.graph.leaf_nodes() if leaf[0] != "viewer"]
        executor.migrate([*others, ("viewer", migration)])
        yield executor.loader.project_state([("viewer", migration)]).apps
    finally:
        connection.close()
        connection.settings_dict["NAME"] = present


def migrate_to_newest() -> None:
    """Apply each migration that the database lacks."""
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())
